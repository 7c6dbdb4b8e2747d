"""Captioned pictures on one sheet. Each pixel of a picture is one pixel of the sheet.

Resampling would change the noise. PDF and SVG files keep the exact pixels too.
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
CROP_SHARE = 4  # of the shorter side
GRID_STEPS = 4  # places that are tried along a crop's own side


@dataclasses.dataclass(frozen=True)
class Crop:
    """A square of the photo, in pixels."""

    left: int
    top: int
    side: int

    def cut(self, image: np.ndarray) -> np.ndarray:
        return image[self.top : self.top + self.side, self.left : self.left + self.side]


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
                _paint_frame(canvas, left + x, top + y, size[0], size[1], panel.stroke)
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


def parse_crop(text: str) -> Crop:
    """Returns the crop of LEFT,TOP,SIDE."""
    try:
        crop = Crop(*(int(part) for part in text.split(",")))
    except (ValueError, TypeError):
        raise ValueError(f"a crop is LEFT,TOP,SIDE in pixels, got {text!r}") from None
    return crop


def check_crop(crop: Crop, height: int, width: int) -> None:
    """Raises ValueError if the crop is not inside of the photo."""
    fits = crop.left + crop.side <= width and crop.top + crop.side <= height
    if crop.side < 1 or min(crop.left, crop.top) < 0 or not fits:
        raise ValueError(
            f"the crop {crop.left},{crop.top},{crop.side} is not inside the photo, "
            f"which is {width} wide and {height} high"
        )


def find_crop(pixels: np.ndarray) -> Crop:
    """Returns the place on a coarse grid where the clean photo varies most."""
    height, width = pixels.shape[:2]
    side = max(1, min(height, width) // CROP_SHARE)
    step = max(1, side // GRID_STEPS)
    crops = [
        Crop(left, top, side)
        for top in range(0, height - side + 1, step)
        for left in range(0, width - side + 1, step)
    ]
    # Over the pixels of each channel: one flat colour is no variation.
    return max(crops, key=lambda crop: crop.cut(pixels).var((0, 1)).mean())
