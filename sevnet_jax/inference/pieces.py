"""Restores an image piece by piece: in strips or tiles, in the network's own units."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from sevnet_jax.inference import tiling
from sevnet_jax.inference.program import Program

INTEGERS = (np.uint8, np.uint16)
SAFE_EXPONENTS = (-20, 20)  # floats of up to 2^-20 to 2^20 are taken as they are

Progress = Callable[[Iterable[Any]], Iterable[Any]]


@dataclasses.dataclass(frozen=True)
class Units:
    """How the network sees the values of an image: (value / unit - centre) / spread."""

    unit: np.float64
    centre: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, image: np.ndarray, told: Sequence[str]) -> Self:
        """Returns those of an image, for a network that is `told` of it as a whole."""
        unit = find_unit(image)
        centre, spread = 0.0, 1.0
        if "centre" in told:
            centre = np.mean([np.mean(row / unit) for row in image])
        if "spread" in told:
            square = [np.mean(np.square(row / unit - centre)) for row in image]
            spread = np.sqrt(np.mean(square)) or 1.0  # a flat image stays as it is
        return cls(unit, centre, spread)

    @property
    def scale(self) -> np.float64:
        """What a difference of 1 to the network is in the image."""
        return np.float64(self.spread * self.unit)

    # Row by row: copies of whole tiles in float64 would add up to a fifth of what the
    # network needs.

    def cut(self, seen: np.ndarray) -> np.ndarray:
        """Returns a part of the image as the network sees it."""
        tile = np.empty(seen.shape, np.float32)
        for row, noisy in enumerate(seen):
            tile[row] = (noisy / self.unit - self.centre) / self.spread
        return tile

    def add(self, noisy: np.ndarray, residual: np.ndarray, into: np.ndarray) -> None:
        """Writes a part of the image plus what the network adds to it."""
        for row, (old, change) in enumerate(zip(noisy, residual, strict=True)):
            into[row] = to_type(old + change * self.scale, noisy.dtype)


def restore_strips(
    program: Program,
    image: np.ndarray,
    units: Units,
    strips: Sequence[slice],
    progress: Progress,
) -> np.ndarray:  # [H, W, C] -> [H, W, C]
    """Returns the image, restored from top to bottom."""
    result = np.empty_like(image, order="C")
    cut = (units.cut(image[rows]) for rows in progress(strips))
    done = 0
    for residual in program.stream_residuals(cut, len(image)):
        rows = np.s_[done : done + len(residual)]
        units.add(image[rows], residual, result[rows])
        done = rows.stop
    return result


def restore_tiles(
    program: Program,
    image: np.ndarray,
    units: Units,
    spans: tuple[list[tiling.Span], list[tiling.Span]],
    ensemble: bool,
    blended: bool,
    progress: Progress,
) -> np.ndarray:  # [H, W, C] -> [H, W, C]
    """Returns the image, restored in windows along both axes.

    Windows are joined where they end, or `blended` over their whole overlap.
    """
    rows, columns = spans
    weights = tiling.blend(rows), tiling.blend(columns)
    sums = _blending_type(image.dtype) if blended else image.dtype
    result = np.zeros(image.shape, sums)
    windows = [(r, c) for r in range(len(rows)) for c in range(len(columns))]

    def see(r: int, c: int) -> tuple[slice, slice]:
        row, column = rows[r], columns[c]
        return np.s_[row.start : row.stop, column.start : column.stop]

    tiles = (units.cut(image[see(*window)]) for window in windows)
    residuals = program.find_residuals(tiles, ensemble)
    for r, c in progress(windows):
        row, column, residual = rows[r], columns[c], next(residuals)
        if blended:
            seen = see(r, c)
            weight = weights[0][r][:, None, None] * weights[1][c][None, :, None]
            result[seen] += weight * (image[seen] + residual * units.scale)
            continue
        kept = np.s_[
            row.keep_start : row.keep_stop, column.keep_start : column.keep_stop
        ]
        inside = np.s_[
            row.keep_start - row.start : row.keep_stop - row.start,
            column.keep_start - column.start : column.keep_stop - column.start,
        ]
        units.add(image[kept], residual[inside], result[kept])
    return to_type(result, image.dtype) if blended else result


def find_unit(image: np.ndarray) -> np.float64:
    """Returns what is 1 to the network: white in integers, a power of two in floats.

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


def to_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns values as pixels: integers are rounded, all are clipped."""
    if dtype in INTEGERS:
        return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)
    limits = np.finfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)
