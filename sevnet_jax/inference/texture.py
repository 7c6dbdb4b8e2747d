"""Keeps fine texture that the weights for cameras take for noise.

Stone, gravel and foliage, sharp to the pixel, can look like noise to them, in images
that have no other. But the noise of a camera is everywhere, and about as strong
wherever the image is as bright. So nowhere is more removed than twice what is usual at
that brightness. Noise in a small part of an image stays, too. Scaling the image scales
the result.
"""

import numpy as np

CELL = 16  # pixels a side, over which it is measured what is removed
MOST = 2.0  # times what is usual
FEWEST = 16  # cells that are not flat; with less there is nothing usual
# Usual is the median of all these cells, or, if that is more, the lower quartile of the
# share of them that is nearest in brightness.
NEAREST, QUARTILE = 0.2, 0.25
NODES = 11  # of brightness, for which it is found


def keep(noisy: np.ndarray, restored: np.ndarray) -> None:  # [H, W, C] twice
    """Changes `restored` back towards `noisy` where too much was removed."""
    removed, brightness, flat = _measure(noisy, restored)
    if np.count_nonzero(~flat) < FEWEST:
        return
    usual = _find_usual(removed[~flat], brightness[~flat], brightness)
    share = np.minimum(1, MOST * usual / np.maximum(removed, 1e-30))
    if share.min() < 1:
        _blend(noisy, restored, share)


def _measure(
    noisy: np.ndarray, restored: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # three times [rows, columns]
    """What was removed from each cell (rms), its brightness, and whether it is flat.

    Cells at the right and at the bottom may be smaller.
    """
    height, width, channels = noisy.shape
    lefts = np.arange(0, width, CELL)
    removed, brightness, flat = [], [], []
    for top in range(0, height, CELL):
        rows = np.s_[top : top + CELL]
        seen, found = (part[rows].astype(np.float64) for part in (noisy, restored))
        count = len(seen) * channels * np.diff([*lefts, width])

        def total(values: np.ndarray, lefts=lefts) -> np.ndarray:
            return np.add.reduceat(values.sum((0, 2)), lefts)

        removed.append(np.sqrt(total(np.square(seen - found)) / count))
        brightness.append(total(found) / count)
        spread = np.maximum.reduceat(seen.max(0), lefts) - np.minimum.reduceat(
            seen.min(0), lefts
        )
        flat.append((spread == 0).all(-1))
    return np.stack(removed), np.stack(brightness), np.stack(flat)


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


def _blend(noisy: np.ndarray, restored: np.ndarray, share: np.ndarray) -> None:
    """Leaves `share` of what was removed, in proportion between centres of cells."""
    height, width = noisy.shape[:2]
    rows, columns = (CELL * (np.arange(n) + 0.5) - 0.5 for n in share.shape)
    share = np.stack([np.interp(np.arange(width), columns, row) for row in share])
    places = np.interp(np.arange(height), rows, np.arange(len(rows)))
    for y, place in enumerate(places):
        above, part = int(place), place % 1
        below = min(above + 1, len(share) - 1)
        kept = (1 - part) * share[above] + part * share[below]
        if kept.min() < 1:
            old, new = (line[y].astype(np.float64) for line in (noisy, restored))
            mixed = old + kept[:, None] * (new - old)
            if restored.dtype.kind == "u":
                mixed = np.rint(mixed)  # between two whole numbers of its range
            restored[y] = mixed
