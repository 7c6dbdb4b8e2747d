"""eval.py noise: a sheet with every noise at every level, and the level maps."""

import argparse
import math
from pathlib import Path

import numpy as np

from sevnet_jax import images, metrics
from sevnet_jax.data import maps, noise
from sevnet_jax.evaluation import report, sheet
from sevnet_jax.evaluation.commands.arguments import whole_number
from sevnet_jax.evaluation.sheet import Panel

HELP = "one sheet with every noise at every level, with its PSNR"
COLUMNS = 6
LONGEST_SIDE = 384
TEXT, GAP = 22, 8
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
    found = [(f"clean (PSNR: {metrics.PROTOCOL})", metrics.to_rgb8(clean))]
    names = [(name, seed) for name in noise.PAPER_COLUMNS]
    names += [("isp", seed + i) for i in range(ISP_SAMPLES)]
    for name, own_seed in names:
        noisy = metrics.to_rgb8(noise.sample(noise.parse(name), clean, seed=own_seed))
        level = metrics.psnr(noisy, found[0][1])
        found.append((f"{name}   {level:.2f} dB", noisy))
    for number in (1, 2, 3):
        level_map = maps.level_map(number, *clean.shape[:2])
        grey = np.repeat(level_map[..., None], 3, -1)
        found.append((f"level map {number}: 60 to 120", metrics.to_rgb8(grey)))
    return found


def draw(image: np.ndarray, out_path: str | Path, seed: int = 0) -> None:
    """Writes the sheet of `image` [H, W, 3], pixels or float32 in [0, 1]."""
    found = [Panel(caption, picture) for caption, picture in panels(image, seed)]
    rows = [found[i : i + COLUMNS] for i in range(0, len(found), COLUMNS)]
    sheet.draw(rows, out_path, text=TEXT, gap=GAP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", required=True, help="a clean photo")
    parser.add_argument("--out", default="runs/noise.png", help="the sheet")
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, help="seed of the noise"
    )


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    pixels = images.to_channels(images.read_named_pixels(args.image), 3)
    draw(pixels, args.out, args.seed)
    print(f"figure: {args.out}")
    return 0
