"""eval.py noise."""

import argparse

from sevnet_jax.data import images
from sevnet_jax.evaluation import noise_sheet, report
from sevnet_jax.evaluation.commands.arguments import whole_number

HELP = "one sheet with every noise law at every level, with its PSNR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", required=True, help="a clean photo")
    parser.add_argument("--out", default="runs/noise.png", help="the sheet")
    parser.add_argument("--seed", type=whole_number(0), default=0)


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    noise_sheet.draw(images.read_named(args.image), args.out, args.seed)
    print(f"figure: {args.out}")
    return 0
