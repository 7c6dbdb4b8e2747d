"""eval.py compare."""

import argparse

from sevnet_jax.data import images
from sevnet_jax.evaluation import compare, metrics, report
from sevnet_jax.evaluation.commands import arguments

HELP = "one photo under noises, restored by each method, with a crop enlarged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", required=True, help="a clean photo")
    parser.add_argument(
        "--noise",
        nargs="+",
        default=["speckle:90"],
        metavar="N",
        help="names of noises, a row each (speckle:90)",
    )
    arguments.add_methods(parser)
    parser.add_argument(
        "--crop",
        metavar="LEFT,TOP,SIDE",
        help="the square to enlarge (where the photo varies most)",
    )
    parser.add_argument("--seed", type=arguments.whole_number(0), default=0)
    parser.add_argument("--out", default="runs/compare.png", help="the figure")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    pixels = images.read_named(args.image)
    crop = compare.parse_crop(args.crop) if args.crop else compare.find_crop(pixels)
    compare.check_crop(crop, *pixels.shape[:2])
    chosen = arguments.open_methods(args)
    rows = compare.restore(images.to_float(pixels), args.noise, chosen, args.seed)
    print(f"PSNR in dB, {metrics.PROTOCOL}, whole image:")
    print(compare.format_rows(rows))
    compare.draw(rows, crop, args.out)
    print(f"figure: {args.out}; crop {crop.left},{crop.top},{crop.side}")
    return 0
