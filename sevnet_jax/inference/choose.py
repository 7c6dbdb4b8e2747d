"""What an image needs: grey or colour weights, white or camera noise, clipping undone.

White noise is independent from pixel to pixel and from channel to channel. Camera noise
is not: demosaicing, JPEG and scaling smooth it, so its finest frequencies are weaker
than coarser ones. JPEG files, film grain and toned scans have much the same noise in
all channels. We measure both where the image is smoothest, because content looks like
smooth noise, and is much the same in all channels.
"""

import dataclasses

import numpy as np
from scipy import fft

from sevnet_jax.inference import clipping

NOISES = ("auto", "white", "camera")
CHANNELS = ("auto", "independent")
SIDE = 8  # pixels of a block
MOST_BLOCKS = 8192  # of an image that are looked at
FEWEST_BLOCKS = 16  # with less there is nothing to tell noises apart by
SMOOTHEST = 0.2  # of the blocks
QUIETEST = 0.1  # of the blocks, in which sharing is measured
# White noise of 20 and more of 255 has 1.0 to 1.8, cameras and rescaled images 2.6 and
# more (40 held-out photos). Weak noise and no noise are on both sides: the weights for
# cameras have seen both.
CORRELATED = 2.0
# White noise of 20 and more has up to 0.10; noise of which channels share a half has
# 0.44 and more, and cameras 0.37. No noise and weak noise are on both sides here too.
SHARED = 0.3
TONED = 0.8  # of the noise, if the content is the same in all channels too
SAME = 0.999  # correlation of two channels; a photo of something grey has less
MOST_SAID = 99
NAMES = {"independent": "independent channels", "toned": "colour, channel by channel"}
# The finest frequencies of a block and coarser ones, as many of each.
_ORDER = np.argsort(np.add.outer(range(SIDE), range(SIDE)).ravel(), kind="stable")
_FINE, _COARSE = _ORDER[-16:], _ORDER[-48:-32]
# Brightness and two differences of colour, orthonormal: JPEG smooths only the latter.
_OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is done to an image, and what was measured if it decided."""

    kind: str  # "colour", "grey", "independent" channels, or "toned": see `choose`
    noise: str  # "white" or "camera"
    clipped: bool  # whether that is undone
    correlation: float | None = None  # between pixels
    sharing: float | None = None  # between channels

    def __str__(self) -> str:
        kind = NAMES.get(self.kind, self.kind)
        reasons = []
        if self.correlation is not None:
            over = self.correlation > MOST_SAID  # where JPEG left nothing that is fine
            value = f"over {MOST_SAID}" if over else f"{self.correlation:.1f}"
            reasons.append(f"correlation {value}")
        if self.sharing is not None and self.sharing > SHARED:
            reasons.append(f"{self.sharing:.0%} the same in all channels")
        why = f" ({', '.join(reasons)})" if reasons else ""
        undone = ", clipping undone" if self.clipped else ""
        return f"{kind}, {self.noise} noise{why}{undone}"


def choose(
    image: np.ndarray,
    noise: str = "auto",
    channels: str = "auto",
    clipped: bool | str = "auto",
) -> Choice:
    """Returns what an image [H, W, C] needs, where it is not said.

    A toned grey picture is restored channel by channel, by the weights for grey: its
    kind is "toned".
    """
    for name, value, known in (
        ("noise", noise, NOISES),
        ("channels", channels, CHANNELS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    clipping.check(clipped)
    kind = find_kind(image, channels)
    seen = {"colour": image[..., :3], "grey": image[..., :1]}.get(kind, image)
    measured = seen if kind == "colour" else seen[..., :1]
    sharing, mix = measure_sharing(measured), None
    if sharing > TONED and is_toned(measured):
        kind, mix = "toned", _OPPONENT[:1]
    correlation = None
    if noise == "auto":
        correlation = measure_correlation(measured, mix)
        white = correlation <= CORRELATED and (kind == "toned" or sharing <= SHARED)
        noise = "white" if white else "camera"
    if clipped == "auto" and noise == "camera":
        clipped = False  # see clipping.py
    clipped = clipping.is_needed(seen, clipped)
    return Choice(kind, noise, clipped, correlation, sharing)


def find_kind(image: np.ndarray, channels: str = "auto") -> str:
    """Returns "grey", also for three equal channels, "colour" or "independent"."""
    count = image.shape[-1]
    if channels == "independent" or count > 4:
        return "independent" if count > 1 else "grey"
    if count <= 2:
        return "grey"
    first = image[..., 0]
    equal = all(np.array_equal(first, image[..., i]) for i in (1, 2))
    return "grey" if equal else "colour"


def measure_correlation(
    image: np.ndarray,
    mix: np.ndarray | None = None,
) -> float:  # [H, W, C]
    """Returns the power of coarse over fine noise, of brightness or colour the larger.

    It is 1 for white noise, whatever its level and unit, and if there is too little of
    the image to tell. `mix` are other channels to look at, as weights of the image's.
    """
    if mix is None:
        mix = _OPPONENT if image.shape[-1] == 3 else np.eye(1)
    power = _transform(image, mix)
    found = [1.0]
    for channel in np.square(power, out=power).T:  # [SIDE * SIDE, N]
        fine, coarse = (channel[band].mean(0) for band in (_FINE, _COARSE))
        there = fine > 0  # a flat block has no noise
        if np.count_nonzero(there) >= FEWEST_BLOCKS:
            low, high = (np.quantile(p[there], SMOOTHEST) for p in (fine, coarse))
            found.append(float(high / low))
    return max(found)


def measure_sharing(image: np.ndarray) -> float:  # [H, W, C]
    """Returns how much of the noise the channels share, from 0 to 1 (all of it)."""
    count = image.shape[-1]
    fine = _transform(image, np.eye(count))[:, _FINE]  # [N, 16, C]
    # One half of the frequencies finds the blocks, or it would find those in which
    # channels happen to differ; the other half is measured.
    power = np.square(fine[:, ::2]).mean((1, 2))
    there = power > 0
    if count == 1 or np.count_nonzero(there) < FEWEST_BLOCKS:
        return 0.0
    wanted = max(FEWEST_BLOCKS, int(QUIETEST * np.count_nonzero(there)))
    quiet = np.flatnonzero(there)[np.argsort(power[there], kind="stable")[:wanted]]
    noise = fine[quiet, 1::2].reshape(-1, count)
    spread = np.sqrt(np.square(noise).mean(0))
    if not spread.all():  # a channel without noise shares none
        return 0.0
    noise /= spread
    largest = np.linalg.eigvalsh(noise.T @ noise / len(noise))[-1]  # 1 to count
    return float(largest - 1) / (count - 1)


def is_toned(image: np.ndarray) -> bool:  # [H, W, 3]
    """Whether all channels are nearly the same one, but for brightness and contrast."""
    pixels = _cut_blocks(image).reshape(-1, image.shape[-1])
    pixels -= pixels.mean(0)
    spread = np.sqrt(np.square(pixels).mean(0))
    if not spread.all():
        return False
    pixels /= spread
    return bool((pixels.T @ pixels / len(pixels)).min() > SAME)


def _transform(image: np.ndarray, mix: np.ndarray) -> np.ndarray:
    """The cosine transforms [N, SIDE * SIDE, C] of blocks of the mixed channels."""
    blocks = _cut_blocks(image) @ mix.T
    if len(blocks):
        blocks = fft.dctn(blocks, axes=(1, 2), norm="ortho")
    return blocks.reshape(len(blocks), SIDE * SIDE, len(mix))


def _cut_blocks(image: np.ndarray) -> np.ndarray:  # [H, W, C] -> [N, SIDE, SIDE, C]
    """At most MOST_BLOCKS blocks, evenly spread over the image, at most 1 in size."""
    rows, columns = (side // SIDE for side in image.shape[:2])
    count = rows * columns
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_BLOCKS)).astype(int))
    tops, lefts = SIDE * (chosen // max(columns, 1)), SIDE * (chosen % max(columns, 1))
    inside = np.arange(SIDE)
    blocks = image[
        (tops[:, None] + inside)[:, :, None], (lefts[:, None] + inside)[:, None, :]
    ]
    blocks = blocks.astype(np.float64)
    largest = np.abs(blocks).max(initial=0)
    return blocks / largest if largest else blocks  # or squares might overflow
