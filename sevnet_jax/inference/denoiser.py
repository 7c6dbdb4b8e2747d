"""One network for arrays: takes any shape, type and unit, and returns the same."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from sevnet_jax.inference import clipping, pieces, tiling
from sevnet_jax.inference.program import Program
from sevnet_jax.models import Translated, ops
from sevnet_jax.weights import Weights

FLOATS = (np.float16, np.float32, np.float64)
TILE_PIXELS = 2_100_000  # at once: sevnet_s takes 370 bytes a pixel
STRIP_PIXELS = 1_600_000  # at once, at most: they take 600 bytes a pixel
WHOLE_PIXELS = 3_200_000  # of networks that cannot be tiled
FAST_MARGIN = 32


class Denoiser:
    """Restores images of any size, type and unit, without knowing the noise.

    The network keeps f(kx) = k f(x), so the unit of floats does not matter.
    """

    def __init__(
        self,
        weights: Weights,
        tile_pixels: int | None = None,
        precision: str | None = None,
        devices: Sequence[jax.Device] | None = None,
    ):
        """At most `tile_pixels` are seen at once; by default memory stays small.

        `precision` is that of products, see `jax.default_matmul_precision`.

        `devices` are by default all devices of this host of the default kind.
        """
        self.weights = weights
        self.tile_pixels = tile_pixels
        self.program = Program(weights, precision, devices)

    @property
    def seconds_per_pixel(self) -> float:
        """About what a pixel costs, without the ensemble."""
        return self.program.seconds_per_pixel

    def __call__(
        self,
        image: np.ndarray,
        *,
        strength: float = 1.0,
        ensemble: bool = False,
        fast: bool = False,
        clipped: bool | str = "auto",
        progress: pieces.Progress = iter,
    ) -> np.ndarray:
        """Returns the restored image, of the shape and type of `image`.

        `image` is [H, W], [H, W, C] or a batch [N, H, W, C]. C is the number of
        channels that the network takes, or 1 (grey), 2 (grey, alpha), 3 (colour) or 4
        (colour, alpha). Alpha stays as it is. A network of 1 channel restores colours
        one by one. Types are uint8, uint16, float16, float32 and float64.

        `strength` blends from the input (0) to the restored image (1), as `blend` does.
        `ensemble` averages over the eight flips and rotations. Where large images are
        cut into tiles, not strips, `fast` overlaps these less, and blends them.
        `clipped` undoes the clipping of noise at black and white (0 and 1 in floats);
        "auto" does so for integers with strong white noise.
        """
        image = np.asarray(image)
        check_image(image, self.weights.model.channels)
        if not 0 <= strength <= 1:
            raise ValueError(f"strength must be 0 to 1, got {strength}")
        clipping.check(clipped)
        if clipped == "auto" and not _saw_white_noise(self.weights):
            clipped = False  # see clipping.py
        options: dict[str, Any] = {"strength": strength, "ensemble": ensemble}
        options |= {"fast": fast, "clipped": clipped}
        if image.ndim == 2:
            return self(image[..., None], **options, progress=progress)[..., 0]
        if image.ndim == 4:
            pages = [self(page, **options) for page in progress(image)]
            return np.stack(pages) if pages else image.copy()
        # Empty until it is written: of a large image, no memory while tiles need it.
        result = np.empty_like(image, order="C")
        for part in self.choose_channels(image.shape[-1]):
            noisy = image[..., part]
            restored = self._restore_channels(noisy, ensemble, fast, progress)
            if clipping.is_needed(noisy, clipped):
                clipping.undo(noisy, restored)
            result[..., part] = blend(noisy, restored, strength)
        if part.stop:
            result[..., part.stop :] = image[..., part.stop :]
        return result

    def choose_channels(self, count: int) -> list[slice]:
        """Returns which channels the network sees at once; alpha is not among them."""
        wanted = self.weights.model.channels
        if count == wanted:
            return [np.s_[:]]
        colours = count - (count % 2 == 0)
        if wanted == 1:
            return [np.s_[i : i + 1] for i in range(colours)]
        if wanted == 3:
            return [np.s_[:colours]]
        raise ValueError(f"these weights need images of {wanted} channels, got {count}")

    def _plan_strips(self, height: int, width: int, ensemble: bool) -> list[slice]:
        """The strips of a large image; none if it fits as a whole, or tiles cost less.

        Turned images would need strips in other directions, and several devices share
        tiles.
        """
        model, most = self.weights.model, self.tile_pixels or TILE_PIXELS
        single = not ensemble and len(self.program.devices) == 1
        if height * width <= most or not single or not model.streams or not model.reach:
            return []
        most = min(most, STRIP_PIXELS)
        strips = tiling.cut_strips(height, width, model.reach, model.multiple, most)
        tiles = tiling.count_pixels(self._plan(height, width, fast=False))
        return strips if strips and strips[-1].stop * width < tiles else []

    def _plan(self, height: int, width: int, fast: bool):
        """The windows along both axes; one each if the image fits as a whole."""
        model = self.weights.model
        whole = model.reach is None and not fast
        most = self.tile_pixels or (WHOLE_PIXELS if whole else TILE_PIXELS)
        if height * width <= most:
            return tiling.whole(height), tiling.whole(width)
        if whole:
            raise ValueError(
                "this network depends on the whole image, so tiles would change the "
                f"result, and {width}x{height} is more than the {most} "
                "pixels that fit at once; cut the image yourself, or accept tiles that "
                "overlap and blend with fast=True (--fast)"
            )
        multiple = model.multiple
        margin = FAST_MARGIN if fast or model.reach is None else model.reach
        height, width, margin = (
            -(-length // multiple) * multiple for length in (height, width, margin)
        )
        return tiling.plan(height, width, margin, multiple, most)

    def _restore_channels(self, image, ensemble, fast, progress):
        """[H, W, C] -> the same; C as the network has it, or 1."""
        units = pieces.Units.of(image, self.weights.model.told)
        if strips := self._plan_strips(*image.shape[:2], ensemble):
            padded = self._pad(image)
            restored = pieces.restore_strips(
                self.program, padded, units, strips, progress
            )
            return restored[: image.shape[0], : image.shape[1]]
        rows, columns = self._plan(*image.shape[:2], fast)
        single = len(rows) * len(columns) == 1
        # Else the network pads it itself: turned, at another side than tiles have it.
        padded = self._pad(image) if ensemble or not single else image
        if single:
            rows, columns = (tiling.whole(side) for side in padded.shape[:2])
        restored = pieces.restore_tiles(
            self.program, padded, units, (rows, columns), ensemble, fast, progress
        )
        return restored[: image.shape[0], : image.shape[1]]

    def _pad(self, image):
        return ops.pad_to_multiple(image[None], self.weights.model.multiple)[0]


def _saw_white_noise(weights: Weights) -> bool:
    """Whether weights are for white noise; of those that do not say, it is assumed."""
    recipe = weights.provenance.get("recipe", {})
    law = recipe.get("data", recipe).get("noise", "gaussian")
    return law.startswith("gaussian") and not isinstance(weights.model, Translated)


def check_image(image: np.ndarray, channels: int) -> None:
    """Raises ValueError unless it is an image, or several, of 1 to 4 or `channels`."""
    if image.dtype not in (*pieces.INTEGERS, *FLOATS):
        names = ", ".join(np.dtype(t).name for t in (*pieces.INTEGERS, *FLOATS))
        raise ValueError(f"pixels must be {names}; got {image.dtype}")
    known = image.ndim == 2 or image.shape[-1] in (1, 2, 3, 4, channels)
    if image.ndim not in (2, 3, 4) or not known:
        raise ValueError(
            "an image is [H, W] or [H, W, 1 to 4], a batch [N, H, W, 1 to 4]; got "
            f"{image.shape}"
        )
    if 0 in image.shape[-3 if image.ndim > 2 else 0 :]:
        raise ValueError(f"an image has at least one pixel; got {image.shape}")
    if image.dtype in FLOATS:
        bad = np.count_nonzero(~np.isfinite(image))
        if bad:
            raise ValueError(
                f"{bad} of {image.size} values are NaN or infinite; replace them first"
            )


def blend(noisy: np.ndarray, restored: np.ndarray, strength: float) -> np.ndarray:
    """Returns `noisy` at strength 0, `restored` at 1, of their type.

    Both are whole pixels, so a restored image is blended with other strengths at once.
    """
    if strength in (0, 1):
        return restored if strength else noisy
    result = np.empty_like(noisy)
    for row, (old, new) in enumerate(zip(noisy, restored, strict=True)):
        between = old + strength * (new.astype(np.float64) - old)
        result[row] = pieces.to_type(between, noisy.dtype)
    return result
