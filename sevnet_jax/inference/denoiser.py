"""One network for arrays: takes any shape, type and unit, and returns the same."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from sevnet_jax.inference import clipping, texture, tiling
from sevnet_jax.inference.program import Program
from sevnet_jax.models import Network, Translated, ops
from sevnet_jax.weights import Weights

INTEGERS = (np.uint8, np.uint16)
FLOATS = (np.float16, np.float32, np.float64)
TILE_PIXELS = 2_100_000  # at once: sevnet_s takes 370 bytes a pixel
WHOLE_PIXELS = 3_200_000  # of networks that cannot be tiled
FAST_MARGIN = 32
MOST_OF_WHITE = 16  # under the strongest noise that floats of white 1 come with
SAFE_EXPONENTS = (-20, 20)  # floats of up to 2^-20 to 2^20 are taken as they are

Progress = Callable[[Iterable[Any]], Iterable[Any]]


class Denoiser:
    """Restores images of any size, type and unit, without knowing the noise.

    If the network keeps f(kx) = k f(x), the unit of floats does not matter. If not,
    black is 0 and white is 1.
    """

    def __init__(
        self,
        weights: Weights,
        tile_pixels: int | None = None,
        precision: str | None = None,
        devices: Sequence[jax.Device] | None = None,
    ):
        """`tile_pixels` are seen at once; by default so many that memory stays small.

        `precision` is that of products, see `jax.default_matmul_precision`.

        `devices` are by default all devices of this host of the default kind.
        """
        self.weights = weights
        self.tile_pixels = tile_pixels
        self.program = Program(weights, precision, devices)

    @property
    def seconds_per_pixel(self) -> float | None:
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
        keep_texture: bool = False,
        progress: Progress = iter,
    ) -> np.ndarray:
        """Returns the restored image, of the shape and type of `image`.

        `image` is [H, W], [H, W, C] or a batch [N, H, W, C]. C is the number of
        channels that the network takes, or 1 (grey), 2 (grey, alpha), 3 (colour) or 4
        (colour, alpha). Alpha stays as it is. A network of 1 channel restores colours
        one by one. Types are uint8, uint16, float16, float32 and float64.

        `strength` blends from the input (0) to the restored image (1), as `blend` does.
        `ensemble` averages over the eight flips and rotations. `fast` overlaps the
        tiles of large images less, and blends them. `clipped` undoes the clipping of
        noise at black and white (0 and 1 in floats); "auto" does so for integers with
        strong white noise. `keep_texture` takes back what is removed in few
        places only, see texture.py.
        """
        image = to_array(image)
        check_image(image, self.weights.model.channels)
        check_unit(image, self.weights.model)
        if not 0 <= strength <= 1:
            raise ValueError(f"strength must be 0 to 1, got {strength}")
        clipping.check(clipped)
        if clipped == "auto" and not _saw_white_noise(self.weights):
            clipped = False  # see clipping.py
        options: dict[str, Any] = {"strength": strength, "ensemble": ensemble}
        options |= {"fast": fast, "clipped": clipped, "keep_texture": keep_texture}
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
            if keep_texture:
                texture.keep(noisy, restored)
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
        told = self.weights.model.told
        height, width = image.shape[:2]
        unit = _find_unit(image)
        centre, spread = 0.0, 1.0
        if "centre" in told:
            centre = np.mean([np.mean(row / unit) for row in image])
        if "spread" in told:
            square = [np.mean(np.square(row / unit - centre)) for row in image]
            spread = np.sqrt(np.mean(square))  # 0: a flat image stays as it is
        rows, columns = self._plan(height, width, fast)
        padded, single = image, len(rows) * len(columns) == 1
        # Else the network pads it itself: turned, at another side than tiles have it.
        if ensemble or not single:
            multiple = self.weights.model.multiple
            padded = ops.pad_to_multiple(image[None], multiple)[0]
        if single:
            rows, columns = (tiling.whole(side) for side in padded.shape[:2])
        scale = np.float64(spread * unit)
        blend_rows, blend_columns = tiling.blend(rows), tiling.blend(columns)
        result = np.zeros(
            padded.shape, _blending_type(image.dtype) if fast else image.dtype
        )
        windows = [(r, c) for r in range(len(rows)) for c in range(len(columns))]

        def see(r: int, c: int) -> tuple[slice, slice]:
            return np.s_[
                rows[r].start : rows[r].stop, columns[c].start : columns[c].stop
            ]

        # Row by row: copies of whole tiles in float64 would add up to a fifth of what
        # the network needs.
        def cut(window: tuple[int, int]) -> np.ndarray:
            seen = padded[see(*window)]
            tile = np.empty(seen.shape, np.float32)
            for row, noisy in enumerate(seen):
                tile[row] = (noisy / unit - centre) / (spread or 1.0)
            return tile

        residuals = self.program.find_residuals(map(cut, windows), ensemble)
        for r, c in progress(windows):
            row, column, residual = rows[r], columns[c], next(residuals)
            if fast:
                seen = see(r, c)
                weight = blend_rows[r][:, None, None] * blend_columns[c][None, :, None]
                result[seen] += weight * (padded[seen] + residual * scale)
                continue
            kept = np.s_[
                row.keep_start : row.keep_stop, column.keep_start : column.keep_stop
            ]
            inside = np.s_[
                row.keep_start - row.start : row.keep_stop - row.start,
                column.keep_start - column.start : column.keep_stop - column.start,
            ]
            kept_rows = zip(result[kept], padded[kept], residual[inside], strict=True)
            for into, noisy, change in kept_rows:
                into[:] = _to_type(noisy + change * scale, image.dtype)
        result = result[:height, :width]
        return _to_type(result, image.dtype) if fast else result


def _saw_white_noise(weights: Weights) -> bool:
    """Whether weights are for white noise; of those that do not say, it is assumed.

    Not of imported ones, many of which are for cameras.
    """
    if "imported" in weights.provenance:
        return False
    recipe = weights.provenance.get("recipe", {})
    law = recipe.get("data", recipe).get("noise", "gaussian")
    laws = law.removeprefix("one_of:").split("+")
    white = all(law.startswith("gaussian") for law in laws)
    return white and not isinstance(weights.model, Translated)


def to_array(image: Any) -> np.ndarray:
    """Returns an array in this machine's order of bytes; FITS files have the other."""
    image = np.asarray(image)
    return image.astype(image.dtype.newbyteorder("="), copy=False)


def check_unit(image: np.ndarray, model: Network) -> None:
    """Raises ValueError if the unit of floats matters and is another one."""
    if image.dtype in INTEGERS or model.keeps_the_law:
        return
    highest = float(np.abs(image).max(initial=0))
    if highest > MOST_OF_WHITE:
        raise ValueError(
            "this network does not keep f(kx) = k f(x), so floats must have white at "
            f"1; got values up to {highest:g}"
        )


def check_image(image: np.ndarray, channels: int) -> None:
    """Raises ValueError unless it is an image, or several, of 1 to 4 or `channels`."""
    if image.dtype not in (*INTEGERS, *FLOATS):
        names = ", ".join(np.dtype(t).name for t in (*INTEGERS, *FLOATS))
        raise ValueError(f"pixels must be {names}; got {image.dtype}")
    known = image.ndim == 2 or (
        image.ndim in (3, 4) and image.shape[-1] in (1, 2, 3, 4, channels)
    )
    if not known:
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


def _find_unit(image: np.ndarray) -> np.float64:
    """What is 1 to the network: white in integers, a power of two in floats.

    A power of two only moves exponents, so the result is exactly the scaled one. Where
    there is nothing to fear it is 1: for networks that keep the law this makes no
    difference, and the ablations that break it were trained on images in [0, 1].
    """
    if image.dtype in INTEGERS:
        return np.float64(np.iinfo(image.dtype).max)
    _, exponent = np.frexp(np.abs(image).max().astype(np.float64))
    low, high = SAFE_EXPONENTS
    return np.float64(1) if low <= exponent <= high else np.ldexp(1.0, exponent - 1)


def blend(noisy: np.ndarray, restored: np.ndarray, strength: float) -> np.ndarray:
    """Returns `noisy` at strength 0, `restored` at 1, of their type.

    Both are whole pixels, so a restored image is blended with other strengths at once.
    """
    if strength in (0, 1):
        return restored if strength else noisy
    result = np.empty_like(noisy)
    for row, (old, new) in enumerate(zip(noisy, restored, strict=True)):
        between = old + strength * (new.astype(np.float64) - old)
        result[row] = _to_type(between, noisy.dtype)
    return result


def _blending_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _to_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype in INTEGERS:
        return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
    limits = np.finfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)
