"""A denoiser for arrays: any shape, type and unit in, the same out."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sevnet_jax.inference import estimate, tiling
from sevnet_jax.inference.weights import (
    Weights,
    join,
    load_denoiser,
    load_named,
)
from sevnet_jax.models import NormalizationWrapper, ops
from sevnet_jax.runtime import compiler_options

DEFAULT, TRANSLATOR = "sevnet_s", "translator_s"
INTEGERS = (np.uint8, np.uint16)
FLOATS = (np.float16, np.float32, np.float64)
TILE_PIXELS = 3_200_000  # at once: sevnet_s takes 390 bytes a pixel
FAST_MARGIN = 32
SYMMETRIES = 8
PROGRAMS = 8  # compiled ones that are kept, one for each size of tile
SAFE_EXPONENTS = (-20, 20)  # floats of up to 2^-20 to 2^20 are taken as they are

Progress = Callable[[Iterable[Any]], Iterable[Any]]


def load(
    name_or_path: str | Path | None = None, *, translator: str | Path | None = None
) -> "Denoiser":
    """Returns a denoiser with the weights of a name, or of a file.

    Without an argument the ones that come with the package. A translator, by name or
    file, turns the noise of cameras into noise that they can remove.
    """
    weights = load_denoiser(name_or_path or DEFAULT)
    if translator:
        weights = join(load_named(translator), weights)
    return Denoiser(weights)


class Denoiser:
    """Restores images of any size, type and unit, without knowing the noise.

    The network keeps f(kx) = k f(x), so the unit of floats does not matter.
    """

    def __init__(self, weights: Weights, tile_pixels: int = TILE_PIXELS):
        self.weights = weights
        self.tile_pixels = tile_pixels
        model = weights.model
        inner = model.inner if isinstance(model, NormalizationWrapper) else model
        if inner.centre == "constant" or model.channels != 3:
            raise ValueError(
                "these weights are of a model with centre 'constant' or not of 3 "
                "channels; only its own code can use it"
            )
        params = weights.params
        # A tile must be seen with the statistics of its whole image: they are found
        # and applied here, and the network is used from inside of its wrapper.
        self._standardize = isinstance(model, NormalizationWrapper)
        if self._standardize:
            model, params = model.unwrap(params)
        self._restore = jax.jit(
            lambda params, tile: model.apply(
                params, tile[None], jax.numpy.zeros((1, 1, 1, 1))
            )[0],
            compiler_options=compiler_options(),
        )
        self._params = jax.device_put(params)
        # Images of many sizes need many programs; only the last ones are kept.
        self._compile = functools.lru_cache(PROGRAMS)(self._compile_for)

    @functools.cached_property
    def seconds_per_pixel(self) -> float:
        """About what a pixel costs on the default device, without the ensemble."""
        channels = self.weights.model.channels
        return estimate.seconds_per_pixel(self._restore, self._params, channels)

    def __call__(
        self,
        image: np.ndarray,
        *,
        strength: float = 1.0,
        ensemble: bool = False,
        fast: bool = False,
        progress: Progress = iter,
    ) -> np.ndarray:
        """Returns the restored image, of the shape and type of `image`.

        `image` is [H, W], [H, W, C] or a batch [N, H, W, C]; C is 1 (grey), 2 (grey,
        alpha), 3 (colour) or 4 (colour, alpha), and alpha stays as it is. Types are
        uint8, uint16, float16, float32 and float64. `strength` blends from the
        input, 0, to the restored image, 1. `ensemble` averages over the eight flips
        and rotations. `fast` overlaps the tiles of large images less, and blends.
        """
        image = np.asarray(image)
        _check(image, strength)
        if image.ndim == 2:
            return self(
                image[..., None],
                strength=strength,
                ensemble=ensemble,
                fast=fast,
                progress=progress,
            )[..., 0]
        if image.ndim == 4:
            restored = [
                self(i, strength=strength, ensemble=ensemble, fast=fast)
                for i in progress(image)
            ]
            return np.stack(restored) if restored else image.copy()
        result = image.copy()
        colours = image.shape[-1] - (image.shape[-1] % 2 == 0)
        result[..., :colours] = self._restore_colours(
            image[..., :colours], strength, ensemble, fast, progress
        )
        return result

    def _compile_for(self, shape: tuple[int, ...]) -> Callable:
        tile = jax.ShapeDtypeStruct(shape, np.float32)
        return self._restore.lower(self._params, tile).compile()

    def _restore_colours(self, image, strength, ensemble, fast, progress):
        """[H, W, 1 or 3] -> the same."""
        model = self.weights.model
        height, width = image.shape[:2]
        unit = _find_unit(image)
        centre, spread = 0.0, 1.0
        if model.centre == "image":
            centre = np.mean([np.mean(row / unit) for row in image])
        if self._standardize:
            square = [np.mean(np.square(row / unit - centre)) for row in image]
            spread = np.sqrt(np.mean(square)) or 1.0  # a flat image stays as it is
        padded = ops.pad_to_multiple(image[None], model.multiple)[0]
        margin = FAST_MARGIN if fast else model.reach
        margin = -(-margin // model.multiple) * model.multiple
        rows, columns = tiling.plan(
            *padded.shape[:2], margin, model.multiple, self.tile_pixels
        )
        scale = np.float64(strength * spread * unit)
        blend_rows, blend_columns = tiling.blend(rows), tiling.blend(columns)
        result = np.zeros(
            padded.shape, _blending_type(image.dtype) if fast else image.dtype
        )
        windows = [(r, c) for r in range(len(rows)) for c in range(len(columns))]
        for r, c in progress(windows):
            row, column = rows[r], columns[c]
            seen = np.s_[row.start : row.stop, column.start : column.stop]
            noisy = padded[seen] / unit
            noisy -= centre
            noisy /= spread
            noisy = noisy.astype(np.float32)
            residual = self._find_residual(noisy, ensemble)
            if fast:
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
            restored = padded[kept] + residual[inside] * scale
            result[kept] = _to_type(restored, image.dtype)
        result = result[:height, :width]
        return _to_type(result, image.dtype) if fast else result

    def _find_residual(self, noisy, ensemble):
        """What the network adds to a tile whose centre is 0: [H, W, 1 or 3] float32."""
        channels = noisy.shape[-1]
        if channels == 1:
            noisy = np.repeat(noisy, self.weights.model.channels, axis=-1)
        symmetries = range(SYMMETRIES if ensemble else 1)
        total = np.zeros_like(noisy)
        for number in symmetries:
            turned = _turn(noisy, number)
            restored = np.asarray(self._compile(turned.shape)(self._params, turned))
            total += _turn_back(restored - turned, number)
        total /= len(symmetries)
        return total.mean(-1, keepdims=True) if channels == 1 else total


def _check(image: np.ndarray, strength: float) -> None:
    if image.dtype not in (*INTEGERS, *FLOATS):
        names = ", ".join(np.dtype(t).name for t in (*INTEGERS, *FLOATS))
        raise ValueError(f"pixels may be {names}; got {image.dtype}")
    if image.ndim not in (2, 3, 4) or (image.ndim > 2 and image.shape[-1] > 4):
        raise ValueError(
            "an image is [H, W] or [H, W, 1 to 4], a batch [N, H, W, 1 to 4]; got "
            f"{image.shape}"
        )
    if 0 in image.shape[-3 if image.ndim > 2 else 0 :]:
        raise ValueError(f"an image has at least one pixel; got {image.shape}")
    if not 0 <= strength <= 1:
        raise ValueError(f"strength must be 0 to 1, got {strength}")
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


def _blending_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _to_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype in INTEGERS:
        return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
    limits = np.finfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)


def _turn(image: np.ndarray, number: int) -> np.ndarray:
    turned = np.rot90(image, number % 4)
    return turned[:, ::-1] if number >= 4 else turned


def _turn_back(image: np.ndarray, number: int) -> np.ndarray:
    return np.rot90(image[:, ::-1] if number >= 4 else image, -(number % 4))
