"""What an image needs: grey or colour weights, white or camera noise, clipping undone.

White noise is independent from pixel to pixel and from channel to channel. Camera noise
is not: demosaicing, JPEG and scaling smooth it, so its finest frequencies are weaker
than coarser ones. JPEG files, film grain and toned scans have much the same noise in
all channels. We measure both where the image is smoothest, because content looks like
smooth noise, and is much the same in all channels.
"""

import dataclasses
import math

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
# White noise of 10 and more of 255 has 1.0 to 1.7 in colour, up to 2.5 in grey. In
# colour cameras have 5.0 and more, enlarged images 2.9; in grey many have less. Weak
# noise and no noise are on both sides: the weights for cameras have seen both. Chosen
# by what the weights restore of 40 held-out crops.
CORRELATED = {"colour": 2.5, "grey": 1.75, "shared": 2.0}
SHARED = 0.3  # white noise of 20 and more has up to 0.10
# Film grain and toned pictures share about as much of the coarsest noise as of the
# finest. What is not shared:
COARSEST_ALONE, MORE_THAN_FINEST = 0.06, 4
# If there is enough of it, its correlation is up to 4 in them; in cameras and JPEG,
# which share the finest noise only, 8 and more. If not, nearly all must be shared. None
# of 160 photos with simulated camera noise passes.
REST = 4.0
NEARLY_ALL, NEARLY_NONE = 0.95, 0.04
LEAST_POWER = 1e-4  # of that of the noisiest channel; below, a channel has no noise
MOST_SAID = 99
NAMES = {"independent": "independent channels", "shared": "colour, channel by channel"}
# The finest frequencies of a block and coarser ones, as many of each.
_ORDER = np.argsort(np.add.outer(range(SIDE), range(SIDE)).ravel(), kind="stable")
_FINE, _COARSE, _COARSEST = _ORDER[-16:], _ORDER[-48:-32], _ORDER[-60:-48]
_DIFFERENCE = np.array([[1.0, -2.0, 1.0]])  # of green and the other colours


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is done to an image, and what was measured if it decided."""

    kind: str  # "colour", "grey", "independent" channels, or "shared": see `choose`
    noise: str  # "white" or "camera", of independent channels also "both"
    clipped: bool  # whether that is undone, in any of the channels
    correlation: float | None = None  # between pixels
    sharing: float | None = None  # between channels
    parts: tuple["Choice", ...] = ()  # one for each of independent channels

    @property
    def passes(self) -> int:
        """How often a network sees the image."""
        return {"independent": len(self.parts), "shared": 3}.get(self.kind, 1)

    @property
    def what(self) -> str:
        """What is done, without the reasons."""
        return self._describe("")

    def __str__(self) -> str:
        reasons = []
        if self.correlation is not None:
            over = self.correlation > MOST_SAID  # where JPEG left nothing that is fine
            value = f"over {MOST_SAID}" if over else f"{self.correlation:.1f}"
            reasons.append(f"correlation {value}")
        if self.sharing is not None and self.sharing > SHARED:
            reasons.append(f"{self.sharing:.0%} the same in all channels")
        return self._describe(f" ({', '.join(reasons)})" if reasons else "")

    def _describe(self, why: str) -> str:
        noise = self.noise
        if noise == "both":
            cameras = sum(part.noise == "camera" for part in self.parts)
            noise = f"{len(self.parts) - cameras} with white and {cameras} with camera"
        kind = NAMES.get(self.kind, self.kind)
        return f"{kind}, {noise} noise{why}{', clipping undone' * self.clipped}"


def choose(
    image: np.ndarray,
    noise: str = "auto",
    channels: str = "auto",
    clipped: bool | str = "auto",
) -> Choice:
    """Returns what an image [H, W, C] needs, where it is not said.

    If the channels of a colour image share their noise at all frequencies, as in film
    grain and toned pictures, they are restored one by one, by the weights for grey: its
    kind is "shared". Each of independent channels has a choice of its own.
    """
    for name, value, known in (
        ("noise", noise, NOISES),
        ("channels", channels, CHANNELS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    clipping.check(clipped)
    kind = find_kind(image, channels)
    if kind == "independent":
        planes = (image[..., i : i + 1] for i in range(image.shape[-1]))
        parts = tuple(choose(plane, noise, "auto", clipped) for plane in planes)
        noises = {part.noise for part in parts}
        noise = noises.pop() if len(noises) == 1 else "both"
        return Choice(kind, noise, any(part.clipped for part in parts), parts=parts)
    seen = image[..., : 3 if kind == "colour" else 1]
    sharing = measure_sharing(seen)
    if kind == "colour" and is_shared(seen, sharing):
        kind = "shared"
    correlation = None
    if noise == "auto":
        correlation = measure_correlation(seen, brightness=kind == "shared")
        most = CORRELATED[kind]
        if kind == "colour" and (correlation is None or sharing > NEARLY_ALL):
            # Differences of colours may have no noise to tell by.
            brightness = measure_correlation(seen, brightness=True)
            found = [c for c in (correlation, brightness) if c is not None]
            correlation, most = max(found, default=None), CORRELATED["shared"]
        noise = "white" if correlation is None or correlation <= most else "camera"
    if clipped == "auto" and noise == "camera":
        clipped = False  # see clipping.py
    if clipped == "auto" and kind == "shared" and not reach_white_alike(seen):
        clipped = False  # or the highlights of a toned picture would change their tone
    used = seen[..., ~are_empty(seen)]  # an empty channel may well be black or white
    clipped = clipping.is_needed(used if used.size else seen, clipped)
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
    brightness: bool = False,
) -> float | None:  # [H, W, 1 or 3]
    """Returns the power of coarse over fine noise, of colours in their difference.

    It is 1 for white noise, whatever its level and unit; None if there is too little
    noise to tell. Differences of colours have little content, so that most blocks
    show the noise. Grey images, and the `brightness` of others, show it where they are
    smoothest.
    """
    if image.shape[-1] == 1 or brightness:
        mix, coarse, typical = np.full((1, image.shape[-1]), 1.0), _COARSE, SMOOTHEST
    else:
        mix, coarse, typical = _DIFFERENCE, _COARSEST, 0.5
    power = np.square(_transform(image, mix))[..., 0]
    fine, coarse = (power[:, band].mean(1) for band in (_FINE, coarse))
    # A flat block has no noise, and less than a step of the file may be rounding, which
    # is white: all that JPEG leaves in the flat places of a photo. Both bands decide,
    # or blocks with much of one by chance would look correlated.
    least = np.square(mix).sum() * _find_step(image) ** 2
    there = (fine > 0) & (fine + coarse > 2 * least)
    if np.count_nonzero(there) < FEWEST_BLOCKS:
        return None
    low, high = (np.quantile(p[there], typical) for p in (fine, coarse))
    return max(1.0, float(high / low))


def measure_sharing(
    image: np.ndarray,
    band: np.ndarray = _FINE,
) -> float:  # [H, W, C]
    """Returns how much of the noise the channels share, from 0 to 1 (all of it).

    It is that of a band of frequencies, in the quietest of the blocks that have any.
    Less than a step of the file may be rounding, which is alike in all channels in flat
    places of JPEG files. Channels without noise do not count: what one channel has
    alone is all shared.
    """
    if image.shape[-1] == 1:
        return 0.0
    noise = _transform(image, np.eye(image.shape[-1]))[:, band]  # [N, 16, C]
    power = np.square(noise).sum((0, 1))
    noise = noise[..., power > LEAST_POWER * power.max()]
    # One half of the frequencies finds the blocks, or it would find those in which
    # channels happen to differ; the other half is measured.
    half = noise[:, ::2]
    power = np.square(half).sum((1, 2))
    there = power > math.prod(half.shape[1:]) * _find_step(image) ** 2
    if np.count_nonzero(there) < FEWEST_BLOCKS:
        return 0.0
    wanted = max(FEWEST_BLOCKS, int(QUIETEST * np.count_nonzero(there)))
    quiet = np.flatnonzero(there)[np.argsort(power[there], kind="stable")[:wanted]]
    count = noise.shape[-1]
    noise = noise[quiet, 1::2].reshape(-1, count)
    spread = np.sqrt(np.square(noise).mean(0))
    if not spread.all():
        return 0.0
    noise /= spread
    largest = np.linalg.eigvalsh(noise.T @ noise / len(noise))[-1]  # 1 to count
    return float(largest - 1) / (count - 1) if count > 1 else 1.0


def is_shared(image: np.ndarray, sharing: float) -> bool:  # [H, W, 3]
    """Whether the channels share `sharing` of their noise at all frequencies alike.

    If one of them is empty, too: no weights for colour have seen that.
    """
    if are_empty(image).any():
        return True
    alone = 1 - measure_sharing(image, _COARSEST)
    if sharing <= SHARED or alone >= COARSEST_ALONE + MORE_THAN_FINEST * (1 - sharing):
        return False
    brightness = measure_correlation(image, brightness=True)
    if brightness is not None and brightness > CORRELATED["shared"]:
        return False
    if sharing > NEARLY_ALL and alone < NEARLY_NONE:
        return True
    rest = measure_correlation(image)
    return rest is None or rest <= REST


def reach_white_alike(image: np.ndarray) -> bool:  # [H, W, C]
    """Whether all channels that are not empty reach white, or none does."""
    highest = np.array([channel.max() for channel in np.moveaxis(image, -1, 0)])
    reached = highest >= clipping.find_white(image)
    return len({*reached[~are_empty(image)]}) < 2


def are_empty(image: np.ndarray) -> np.ndarray:  # [H, W, C] -> [C]
    """Which channels have one value only."""
    return np.array([(c == c[0, 0]).all() for c in np.moveaxis(image, -1, 0)])


def _find_step(image: np.ndarray) -> float:
    """The file's step between values, relative to the largest; floats have none."""
    if image.dtype.kind == "f":
        return 0.0
    # Files of 16 bits may hold pixels of 8.
    return int(np.gcd.reduce(image, axis=None)) / max(1, image.max(initial=0))


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
