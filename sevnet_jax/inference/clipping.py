"""Undoes the clipping of noise at black and white.

A file holds y = clip(x + s n). A denoiser finds the mean of y, which is not x: near
white it is darker, near black brighter, by up to 0.4 s. The residual y - mean gives the
variance around each pixel. For white Gaussian noise, mean and variance together
determine x and s. For camera noise the result is 0.15 dB worse in the mean of 14
photos, so there it is done only on request. Black and white do not scale, so the law
f(kx) = k f(x) holds for the network but not for this step.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import ndimage, special

# What people say, and what it means.
CLIPPED: dict[str, bool | str] = {"auto": "auto", "yes": True, "no": False}
CELL = 32  # pixels a side over which the level is taken as the same
BINS = 20  # of brightness, for noise that depends on it
NODES = 513  # of brightness, between which the correction is interpolated
LEVELS = np.geomspace(1e-3, 1.5, 96)  # standard deviations in the tables
MEANS = np.linspace(0, 1, 513)
ROWS = 256  # of the image that are worked on at once; a multiple of CELL
LEAST_CLIPPED = 1e-4  # share of the pixels
LEAST_LEVEL = 4 / 255  # below, the mean moves by less than 2 of 255
MOST_ROWS = 2048  # that the level is estimated from
BINOMIAL = np.array([1, 2, 1]) / 4


def find_moments(
    clean: np.ndarray, sigma: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and variance of clip(clean + sigma n, 0, 1), n standard normal."""
    low, high = -clean / sigma, (1 - clean) / sigma
    below, above = special.ndtr(low), special.ndtr(-high)
    inside = 1 - below - above
    at_low, at_high = (
        np.exp(-np.square(z) / 2) / np.sqrt(2 * np.pi) for z in (low, high)
    )
    mean = clean * inside + sigma * (at_low - at_high) + above
    square = (
        (clean**2 + sigma**2) * inside
        + 2 * clean * sigma * (at_low - at_high)
        + sigma**2 * (low * at_low - high * at_high)
        + above
    )
    return mean, np.maximum(square - mean**2, 0)


@functools.cache
def _make_tables() -> tuple[np.ndarray, np.ndarray]:
    """The clean value and the variance for each (level, mean): [LEVELS, MEANS]."""
    cleans, variances = [], []
    for sigma in LEVELS:
        mean, _ = find_moments(MEANS, sigma)
        clean = np.interp(MEANS, mean, MEANS)  # means that cannot be end at 0 and 1
        cleans.append(clean)
        variances.append(find_moments(clean, sigma)[1])
    return np.stack(cleans), np.stack(variances)


def _find_levels(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The positions in LEVELS at which clipped noise has this mean and variance."""
    _, variances = _make_tables()
    columns = np.clip(np.rint(mean * (len(MEANS) - 1)), 0, len(MEANS) - 1).astype(int)
    numbers = np.arange(len(LEVELS))
    result = np.empty(mean.shape)
    for column in np.unique(columns):
        at = columns == column
        result[at] = np.interp(variance[at], variances[:, column], numbers)
    return result


def check(clipped: bool | str) -> None:
    if clipped not in (True, False, "auto"):
        raise ValueError(f'clipped must be True, False or "auto", got {clipped!r}')


def find_white(image: np.ndarray) -> float:
    """Returns where an image was clipped: 1 in floats, in integers all ones.

    Cameras put 10 to 14 bits into files of 16.
    """
    if image.dtype.kind == "f":
        return 1.0
    brightest = image.max(initial=0)
    most = np.iinfo(image.dtype).bits
    return next(2.0**bits - 1 for bits in (8, 10, 12, 14, most) if brightest < 2**bits)


def is_needed(image: np.ndarray, clipped: bool | str = "auto") -> bool:
    """Whether clipping is to be undone in [H, W, C]: only if pixels are at the ends.

    If nothing is said of it, in integers only, where noise is strong enough to matter.
    """
    if not clipped or (clipped == "auto" and image.dtype.kind == "f"):
        return False
    share = _is_clipped(image, find_white(image)).mean()
    if clipped != "auto":
        return bool(share > 0)
    return bool(share > LEAST_CLIPPED and estimate_level(image) > LEAST_LEVEL)


def estimate_level(image: np.ndarray) -> float:
    """Returns about the noise's deviation, white being 1, from diagonal differences.

    Of the smoother half of what is not clipped: fine texture counts as noise.
    """
    white = find_white(image)
    step = 1 + max(image.shape[:2]) // MOST_ROWS
    part = image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2]
    quads = [part[y::2, x::2][::step] for y in (0, 1) for x in (0, 1)]
    if not quads[-1].size:
        return 0.0
    free = ~np.any([_is_clipped(q, white) for q in quads], axis=0)
    a, b, c, d = (q[free].astype(np.float64) for q in quads)
    if not a.size:
        return 0.0
    # The median of |N(0, 1)| is 0.6745.
    return float(np.median(np.abs(a - b - c + d)) / 2 / 0.6745 / white)


def undo(noisy: np.ndarray, restored: np.ndarray) -> None:
    """Changes `restored` [H, W, C], the mean of clipped pixels, to what was clipped.

    What has no clipped pixels near stays as it is.
    """
    white = find_white(noisy)
    for channel in range(noisy.shape[-1]):
        part = np.s_[..., channel]
        if _is_clipped(noisy[part], white).any():
            _undo_channel(noisy[part], restored[part], white)


def _is_clipped(noisy: np.ndarray, white: float) -> np.ndarray:
    return (noisy <= 0) | (noisy >= white)


def _blocks(height: int) -> Iterator[slice]:
    return (slice(top, min(top + ROWS, height)) for top in range(0, height, ROWS))


def _undo_channel(noisy: np.ndarray, restored: np.ndarray, white: float) -> None:
    """Changes `restored` [H, W] in place, in blocks of rows.

    A cell has 1024 pixels but fewer brightnesses, so corrections are found for these.
    """
    height, width = noisy.shape
    eight_bit = restored.dtype == np.uint8  # then each brightness is a node
    steps = int(white) if eight_bit else NODES - 1
    shifts = _find_shifts(*_find_cells(noisy, restored, white), steps + 1)
    x, part_x = _locate(np.arange(width))
    for rows in _blocks(height):
        y, part_y = _locate(np.arange(rows.start, rows.stop))
        bright, part = restored[rows], None
        if not eight_bit:
            bright = np.clip(bright / white, 0, 1) * steps
            part = (bright - np.floor(bright)).astype(np.float32)
        low = (y[:, None] * shifts.shape[1] + x) * shifts.shape[2] + bright.astype(int)
        shift = _interpolate(shifts, low, (part_y[:, None], part_x, part))
        values = restored[rows] + shift * white
        if restored.dtype.kind == "u":
            values = np.clip(np.rint(values), 0, white)
        restored[rows] = values


def _find_cells(
    noisy: np.ndarray, restored: np.ndarray, white: float
) -> tuple[np.ndarray, np.ndarray]:  # [H, W] twice -> [cells, cells, BINS] twice
    """The positions in LEVELS, and how far clipping, and not texture, explains them."""
    height, width = noisy.shape
    shape = (-(-height // CELL), -(-width // CELL), BINS)
    count, mean, square, clipped = (np.zeros(shape) for _ in range(4))
    for rows in _blocks(height):
        seen = noisy[rows] / white
        found = np.clip(restored[rows] / white, 0, 1)
        y = np.arange(rows.start, rows.stop)[:, None] // CELL
        x = np.arange(width)[None] // CELL
        bins = np.minimum((found * BINS).astype(int), BINS - 1)
        cells = ((y * shape[1] + x) * BINS + bins).ravel()
        for total, values in (
            (count, None),
            (mean, found.ravel()),
            (square, np.square(seen - found).ravel()),
            (clipped, _is_clipped(noisy[rows], white).ravel().astype(float)),
        ):
            total += np.bincount(cells, values, count.size).reshape(shape)
    for total in (count, mean, square, clipped):
        for axis in range(3):
            for _ in range(2):  # or levels would jump between cells
                ndimage.convolve1d(total, BINOMIAL, axis, output=total, mode="nearest")
    there = np.maximum(count, 1e-9)
    mean, square, clipped = mean / there, square / there, clipped / there
    levels = _find_levels(mean, square)
    sigma = np.interp(levels, np.arange(len(LEVELS)), LEVELS)
    guess = _look_up(levels, mean)
    expected = special.ndtr(-guess / sigma) + special.ndtr((guess - 1) / sigma)
    return levels, np.clip(clipped / np.maximum(expected, 1e-9), 0, 1)


def _look_up(levels: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The clean values of means under noise of levels, as positions in LEVELS."""
    cleans, _ = _make_tables()
    return ndimage.map_coordinates(
        cleans, [levels, means * (len(MEANS) - 1)], order=1, mode="nearest"
    )


def _find_shifts(
    levels: np.ndarray, share: np.ndarray, nodes: int
) -> np.ndarray:  # [cells, cells, BINS] twice -> [cells + 2, cells + 2, nodes + 1]
    """What is added to each brightness in each cell.

    The outermost cells and the last brightness are repeated: all have a next neighbour.
    """
    brightness = np.linspace(0, 1, nodes)
    centres = (np.arange(BINS) + 0.5) / BINS
    between = np.stack([np.interp(brightness, centres, row) for row in np.eye(BINS)])
    rows, columns, _ = levels.shape
    shifts = np.empty((rows + 2, columns + 2, nodes + 1), np.float32)
    for row, (level, certain) in enumerate(zip(levels, share, strict=True)):
        clean = _look_up(*np.broadcast_arrays(level @ between, brightness))
        shifts[row + 1, 1:-1, :-1] = certain @ between * (clean - brightness)
    shifts[0], shifts[-1] = shifts[1], shifts[-2]
    shifts[:, 0], shifts[:, -1] = shifts[:, 1], shifts[:, -2]
    shifts[..., -1] = shifts[..., -2]
    return shifts


def _locate(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell of `_find_shifts` before each pixel, and how far it is to the next."""
    position = (pixels + 0.5) / CELL + 0.5
    low = position.astype(int)
    return low, (position - low).astype(np.float32)


def _interpolate(
    grid: np.ndarray, first: np.ndarray, parts: Sequence[np.ndarray | None]
) -> np.ndarray:
    """Values between those at `first` of the flat grid and their next neighbours.

    `parts` of the way, along each axis; None: at the first.
    """
    if not parts:
        return grid.ravel()[first]
    low = _interpolate(grid, first, parts[1:])
    if parts[0] is None:
        return low
    step = grid.strides[-len(parts)] // grid.itemsize
    high = _interpolate(grid, first + step, parts[1:])
    return low + parts[0] * (high - low)
