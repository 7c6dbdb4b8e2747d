"""Cuts large images into windows that overlap by what the network sees around a pixel.

Apart from the image's centre, the network is local. With the centre of the whole image,
windows on multiples of `multiple` and a margin of the network's reach, the result is
that of the whole image. All windows of an image have the same shape, so only one
program is compiled.
"""

import dataclasses
import itertools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Span:
    """A window along one axis, and the part of it that is kept."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int


def whole(length: int) -> list[Span]:
    """Returns the one window that is the whole axis."""
    return [Span(0, length, 0, length)]


def cut(length: int, count: int, margin: int, multiple: int) -> list[Span]:
    """Returns `count` windows of one length along an axis, fewer if they suffice.

    `length` and `margin` are multiples of `multiple`, and so is all that is returned.
    """
    side = _side(length, count, margin, multiple)
    if side == length:
        return whole(length)
    starts = [*range(0, length - side, side - 2 * margin), length - side]
    edges = [0, *(start + margin for start in starts[1:]), length]
    return [
        Span(start, start + side, edges[i], edges[i + 1])
        for i, start in enumerate(starts)
    ]


def plan(
    height: int, width: int, margin: int, multiple: int, most_pixels: int
) -> tuple[list[Span], list[Span]]:
    """Returns the rows and columns of the cheapest windows of at most `most_pixels`.

    If none is that small, the smallest: more cuts than margins fit into the image
    would make none smaller.
    """
    axes = []
    for length in (height, width):
        counts = range(1, max(1, length // max(margin, multiple)) + 1)
        # Of several counts with windows of the same side, the smallest.
        sides = {_side(length, n, margin, multiple): n for n in reversed(counts)}
        axes.append([*sides.items()][::-1])

    def cost(choice):
        (rows_side, rows), (columns_side, columns) = choice
        pixels = rows_side * columns_side
        return max(0, pixels - most_pixels), pixels * rows * columns

    (_, rows), (_, columns) = min(itertools.product(*axes), key=cost)
    return cut(height, rows, margin, multiple), cut(width, columns, margin, multiple)


def blend(spans: list[Span]) -> list[np.ndarray]:
    """Returns weights along each window: ramps over the overlaps, 1 in sum."""
    weights = []
    for index, span in enumerate(spans):
        position = np.arange(span.start, span.stop) + 0.5
        weight = np.ones(span.stop - span.start)
        if index > 0 and (overlap := spans[index - 1].stop - span.start):
            weight *= np.minimum(1, (position - span.start) / overlap)
        if index + 1 < len(spans) and (overlap := span.stop - spans[index + 1].start):
            weight *= np.minimum(1, (span.stop - position) / overlap)
        weights.append(weight)
    total = np.zeros(spans[-1].stop)
    for span, weight in zip(spans, weights, strict=True):
        total[span.start : span.stop] += weight
    return [
        (weight / total[span.start : span.stop]).astype(np.float32)
        for span, weight in zip(spans, weights, strict=True)
    ]


def _side(length: int, count: int, margin: int, multiple: int) -> int:
    """The length of each of `count` windows that cover an axis with their margins."""
    return min(
        length, _round_up(-(-(length + 2 * margin * (count - 1)) // count), multiple)
    )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
