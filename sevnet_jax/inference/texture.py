"""Keeps fine texture that the weights for cameras take for noise.

Stone, gravel and foliage, sharp to the pixel, can look like noise to them, in images
that have no other. But a camera's noise is everywhere, and about as strong wherever the
image is as bright. So little more is removed anywhere than four times what is usual at
that brightness. The price: noise in less than half of an image, as in a collage, stays
where the rest is as bright. Scaling the image scales the result.
"""

import numpy as np

CELL = 16  # pixels a side, over which it is measured what is removed
MOST = 4.0  # times what is usual
FEWEST = 16  # cells that are not flat; with less there is nothing usual
# Usual is the median of all these cells, or, if that is more, the lower quartile of the
# share of them that is nearest in brightness.
NEAREST, QUARTILE = 0.05, 0.25
NODES = 41  # of brightness, for which it is found


def keep(noisy: np.ndarray, restored: np.ndarray) -> None:  # [H, W, C] twice
    """Changes `restored` back towards `noisy` where too much was removed."""
    starts = [_find_starts(side) for side in noisy.shape[:2]]
    removed, brightness, flat = _measure(noisy, restored, *starts)
    if np.count_nonzero(~flat) < FEWEST:
        return
    usual = _find_usual(removed[~flat], brightness[~flat], brightness)
    share, most = np.ones_like(removed), MOST * usual
    np.divide(most, removed, out=share, where=removed > most)
    if share.min() < 1:
        _blend(noisy, restored, share, *starts)


def _find_starts(side: int) -> np.ndarray:
    """Where cells begin along a side. The last one may be half as long again."""
    return np.arange(0, max(side - CELL // 2, 1), CELL)


def _measure(
    noisy: np.ndarray, restored: np.ndarray, tops: np.ndarray, lefts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # three times [rows, columns]
    """What was removed from each cell (rms), its brightness, and whether it is flat."""
    height, width, channels = noisy.shape
    # A power of two, or squares might leave the range of floats.
    _, exponent = np.frexp(np.float64(np.abs(noisy).max()))
    unit = np.ldexp(1.0, exponent - 1)
    removed, brightness, flat = [], [], []
    for top, bottom in zip(tops, [*tops[1:], height], strict=True):
        seen, found = (i[top:bottom] / np.float64(unit) for i in (noisy, restored))
        count = len(seen) * channels * np.diff([*lefts, width])
        removed.append(np.sqrt(_sum_cells(np.square(seen - found), lefts) / count))
        brightness.append(_sum_cells(found, lefts) / count)
        highest = np.maximum.reduceat(seen.max(0), lefts)
        flat.append((highest == np.minimum.reduceat(seen.min(0), lefts)).all(-1))
    return np.stack(removed), np.stack(brightness), np.stack(flat)


def _sum_cells(values: np.ndarray, lefts: np.ndarray) -> np.ndarray:
    """Sums of a row of cells, [H, W, C] -> [columns]."""
    return np.add.reduceat(values.sum((0, 2)), lefts)


def _find_usual(
    removed: np.ndarray, brightness: np.ndarray, wanted: np.ndarray
) -> np.ndarray:  # [N], [N], [...] -> [...]
    """What is usually removed at the brightnesses that are wanted."""
    order = np.argsort(brightness, kind="stable")
    count = max(FEWEST // 2, int(NEAREST * len(order)))
    starts = np.linspace(0, len(order) - count, NODES).astype(int)
    nearest = [order[start : start + count] for start in starts]
    places = [np.median(brightness[cells]) for cells in nearest]
    values = [np.quantile(removed[cells], QUARTILE) for cells in nearest]
    return np.maximum(np.median(removed), np.interp(wanted, places, values))


def _blend(
    noisy: np.ndarray,
    restored: np.ndarray,
    share: np.ndarray,
    tops: np.ndarray,
    lefts: np.ndarray,
) -> None:
    """Takes `share` of what was removed from each cell; it changes in between."""
    height, width = noisy.shape[:2]
    rows, columns = (
        (starts + np.append(starts[1:], side) - 1) / 2
        for starts, side in ((tops, height), (lefts, width))
    )
    share = np.stack([np.interp(np.arange(width), columns, row) for row in share])
    places = np.interp(np.arange(height), rows, np.arange(len(rows)))
    for y, place in enumerate(places):
        above, part = int(place), place % 1
        below = min(above + 1, len(share) - 1)
        taken = ((1 - part) * share[above] + part * share[below])[:, None]
        if taken.min() < 1:
            mixed = (1 - taken) * noisy[y] + taken * restored[y]
            if restored.dtype.kind == "u":
                mixed = np.rint(mixed)  # between two whole numbers of its range
            restored[y] = mixed
