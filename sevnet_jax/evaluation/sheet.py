"""Captioned pictures on one sheet, a pixel of a picture a pixel of the sheet.

Resampling would change the noise. In PDF and SVG, too, the pixels stay what they are.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from sevnet_jax.evaluation.report import save_figure

DPI = 128  # a power of two: whole pixels stay whole in inches
POINTS_PER_INCH = 72
PAPER, INK = 255, "#222222"
FRAME = (230, 30, 90)


@dataclasses.dataclass(frozen=True)
class Panel:
    """A picture, what stands above it, and what is framed in it."""

    caption: str
    pixels: np.ndarray  # uint8 [H, W, 3]
    frame: tuple[int, int, int, int] | None = None  # left, top, width, height
    stroke: int = 2  # of the frame, which lies around its pixels


def draw(
    rows: Sequence[Sequence[Panel]], path: str | Path, *, text: int = 15, gap: int = 8
) -> None:
    """Writes rows of panels; captions are `text` pixels high, columns `gap` apart."""
    canvas, captions = lay_out(rows, text, gap)
    height, width = canvas.shape[:2]
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    extent = (0, width, height, 0)  # so that the axes count pixels from the top left
    axes.imshow(canvas, interpolation="none", aspect="auto", extent=extent)
    for left, bottom, caption in captions:
        axes.text(
            *(left, bottom, caption),
            fontsize=text * POINTS_PER_INCH / DPI,
            color=INK,
            parse_math=False,
        )
    save_figure(figure, path, dpi=DPI)


def enlarge(pixels: np.ndarray, factor: int) -> np.ndarray:
    """Returns each pixel as factor x factor of its kind."""
    return pixels.repeat(factor, 0).repeat(factor, 1)


def lay_out(
    rows: Sequence[Sequence[Panel]], text: int, gap: int
) -> tuple[np.ndarray, list[tuple[int, int, str]]]:
    """Returns the sheet's pixels, and left, bottom and words of each caption."""
    widths = [0] * max(map(len, rows))
    for row in rows:
        for column, panel in enumerate(row):
            needed = max(panel.pixels.shape[1], _measure(panel.caption, text))
            widths[column] = max(widths[column], needed)
    # A row without captions still keeps its distance.
    head = text + text // 2 + 4
    heads = [head if any(p.caption for p in row) else gap for row in rows]
    heights = [max(panel.pixels.shape[0] for panel in row) for row in rows]
    total = sum(heads) + sum(heights) + gap, sum(widths) + gap * (len(widths) + 1)
    canvas = np.full((*total, 3), PAPER, np.uint8)
    captions = []
    top = 0
    for row, head, height in zip(rows, heads, heights, strict=True):
        top += head
        left = gap
        for panel, width in zip(row, widths, strict=False):
            rows_seen, columns_seen = panel.pixels.shape[:2]
            canvas[top : top + rows_seen, left : left + columns_seen] = panel.pixels
            if panel.frame:
                x, y, *size = panel.frame
                _paint_frame(canvas, left + x, top + y, *size, panel.stroke)
            if panel.caption:
                captions.append((left, top - text // 4 - 3, panel.caption))
            left += width + gap
        top += height
    return canvas, captions


def _measure(caption: str, text: int) -> int:
    if not caption:
        return 0
    plain = caption.replace("$", "S")  # or it would be read as a formula
    return int(np.ceil(TextPath((0, 0), plain, size=text).get_extents().x1)) + 1


def _paint_frame(
    canvas: np.ndarray, left: int, top: int, width: int, height: int, stroke: int
) -> None:
    outer = (
        slice(max(top - stroke, 0), top + height + stroke),
        slice(max(left - stroke, 0), left + width + stroke),
    )
    inside = canvas[top : top + height, left : left + width].copy()
    canvas[outer] = FRAME
    canvas[top : top + height, left : left + width] = inside
