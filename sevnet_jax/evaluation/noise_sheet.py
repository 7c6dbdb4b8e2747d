"""One sheet with every noise law at every level, and the three level maps."""

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sevnet_jax.data import images, maps, noise
from sevnet_jax.evaluation import metrics
from sevnet_jax.evaluation.report import save_figure

COLUMNS = 6
LONGEST_SIDE = 384
CAPTION, GAP, DPI = 20, 4, 100
ISP_SAMPLES = 3  # a camera each


def _reduced(image: np.ndarray) -> np.ndarray:
    """Box-averages to LONGEST_SIDE, so that the noise is seen at its own pixels."""
    factor = math.ceil(max(image.shape[:2]) / LONGEST_SIDE)
    factor = min(factor, *image.shape[:2])
    height, width = (side // factor for side in image.shape[:2])
    image = image[: height * factor, : width * factor]
    if factor == 1:
        return image
    return image.reshape(height, factor, width, factor, 3).mean((1, 3))


def panels(image: np.ndarray, seed: int = 0) -> list[tuple[str, np.ndarray]]:
    """Returns the sheet's captions and pictures, uint8, all of one size."""
    if image.dtype in (np.uint8, np.uint16):
        image = images.to_float(image)
    clean = _reduced(image).astype(np.float32)
    sheet = [("clean", metrics.to_rgb8(clean))]
    names = [(name, seed) for name in noise.PAPER_COLUMNS]
    names += [("isp", seed + i) for i in range(ISP_SAMPLES)]
    for name, own_seed in names:
        noisy = metrics.to_rgb8(noise.sample(noise.parse(name), clean, seed=own_seed))
        level = metrics.psnr(noisy, sheet[0][1])
        sheet.append((f"{name}   {level:.2f} dB", noisy))
    for number in (1, 2, 3):
        level_map = maps.level_map(number, *clean.shape[:2])
        grey = np.repeat(level_map[..., None], 3, -1)
        sheet.append((f"level map {number}: 60 to 120", metrics.to_rgb8(grey)))
    return sheet


def draw(image: np.ndarray, out_path: str | Path, seed: int = 0) -> None:
    """Writes the sheet of `image` [H, W, 3], pixels or float32 in [0, 1]."""
    sheet = panels(image, seed)
    height, width = sheet[0][1].shape[:2]
    rows = math.ceil(len(sheet) / COLUMNS)
    total_width = COLUMNS * (width + GAP) + GAP
    total_height = rows * (height + CAPTION + GAP) + GAP
    figure = Figure(figsize=(total_width / DPI, total_height / DPI), dpi=DPI)
    for i, (caption, picture) in enumerate(sheet):
        row, column = divmod(i, COLUMNS)
        left = GAP + column * (width + GAP)
        bottom = total_height - (row + 1) * (height + CAPTION + GAP)
        # One picture pixel a sheet pixel: resampling would change the noise.
        figure.figimage(picture, left, bottom, origin="upper")
        figure.text(
            left / total_width,
            (bottom + height + 4) / total_height,
            caption,
            fontsize=9,
            va="bottom",
        )
    save_figure(figure, out_path, dpi=DPI)
