"""eval.py compare: a photo under noises, restored by some methods, side by side."""

import argparse
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sevnet_jax import images, metrics
from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, protocol, report, scenes, sheet
from sevnet_jax.evaluation.commands import arguments
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.evaluation.sheet import Crop, Panel, check_crop, find_crop, parse_crop

HELP = "one photo under several noises, restored by each method"
# Of larger photos a panel shows every n-th pixel: averages would hide the noise.
LONGEST_SIDE = 1024


@dataclasses.dataclass(frozen=True)
class Picture:
    """What is shown, and its PSNR; the clean photo has none."""

    name: str
    pixels: np.ndarray  # uint8 [H, W, C]
    psnr: float | None = None


def restore(
    clean: np.ndarray,
    noises: Sequence[str],
    chosen: Sequence[methods.Method],
    seed: int = 0,
) -> dict[str, list[Picture]]:
    """Returns, for each noise, the clean photo, the noisy one, and the restored ones.

    `clean` is float32 [H, W, C] in [0, 1]. The noisy one is always there, so that the
    method "noisy" adds nothing.
    """
    for name in noises:
        noise.parse(name)
    rows = {}
    for given in scenes.add_noises(clean, list(dict.fromkeys(noises)), (seed, 0)):
        reference = given.reference.clean
        rows[given.noise] = [
            Picture(f"clean (PSNR: {metrics.PROTOCOL})", reference),
            _score(f"noisy, {given.noise}", given.noisy, reference),
        ]
        for method in chosen:
            if method.restore is not methods.keep_noisy:
                restored = protocol.restore(method, given, "the photo")
                rows[given.noise].append(_score(method.name, restored, reference))
    return rows


def _score(name: str, image: np.ndarray, reference: np.ndarray) -> Picture:
    if not np.isfinite(image).all():
        raise ValueError(f"{name} returned NaN or infinity")
    pixels = metrics.to_rgb8(image)
    return Picture(name, pixels, metrics.psnr(pixels, reference))


def to_colour(picture: Picture) -> np.ndarray:
    return images.to_channels(picture.pixels, 3)


def caption(picture: Picture) -> str:
    if picture.psnr is None:
        return picture.name
    return f"{picture.name}  {picture.psnr:.2f} dB"


def format_rows(rows: dict[str, list[Picture]]) -> str:
    """Returns a line for each noise, a column for each method."""
    names = [picture.name for picture in next(iter(rows.values()))[2:]]
    lines = [
        [name, *(f"{picture.psnr:.2f}" for picture in pictures[1:])]
        for name, pictures in rows.items()
    ]
    return format_table(["noise", "noisy", *names], lines)


def draw(rows: dict[str, list[Picture]], crop: Crop, path: str | Path) -> None:
    """Writes the photos, and below each its crop, enlarged by a whole factor."""
    height, width = next(iter(rows.values()))[0].pixels.shape[:2]
    check_crop(crop, height, width)
    every = math.ceil(max(height, width) / LONGEST_SIDE)
    shown = math.ceil(width / every)
    factor = max(1, shown // crop.side)
    # A sheet is mostly seen reduced to a page's width: words and frames grow with it.
    text, stroke = max(15, shown // 20), max(2, shown // 150)
    frame = [-(-value // every) for value in (crop.left, crop.top)]
    frame += [max(1, crop.side // every)] * 2
    lines = []
    for pictures in rows.values():
        photos = [
            Panel(caption(p), to_colour(p)[::every, ::every], tuple(frame), stroke)
            for p in pictures
        ]
        enlarged = [sheet.enlarge(crop.cut(to_colour(p)), factor) for p in pictures]
        whole = (0, 0, *enlarged[0].shape[1::-1])
        lines += [photos, [Panel("", pixels, whole, stroke) for pixels in enlarged]]
    sheet.draw(lines, path, text=text, gap=max(8, 3 * stroke))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", required=True, help="a clean photo")
    parser.add_argument(
        "--noise",
        nargs="+",
        default=["speckle:90"],
        metavar="N",
        help="noises, one row each (default: speckle:90)",
    )
    arguments.add_methods(parser)
    arguments.add_grey(parser)
    parser.add_argument(
        "--crop",
        metavar="LEFT,TOP,SIDE",
        help="the square to enlarge (default: where the photo varies most)",
    )
    parser.add_argument(
        "--seed", type=arguments.whole_number(0), default=0, help="seed of the noise"
    )
    parser.add_argument("--out", default="runs/compare.png", help="the figure")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    opened = arguments.open_methods(args)
    channels = methods.find_channels(opened, args.grey)
    pixels = images.to_channels(images.read_named_pixels(args.image), channels)
    crop = parse_crop(args.crop) if args.crop else find_crop(pixels)
    check_crop(crop, *pixels.shape[:2])
    rows = restore(images.to_float(pixels), args.noise, opened, args.seed)
    print(f"PSNR in dB, {metrics.PROTOCOL}, whole image:")
    print(format_rows(rows))
    draw(rows, crop, args.out)
    print(f"figure: {args.out}; crop {crop.left},{crop.top},{crop.side}")
    return 0
