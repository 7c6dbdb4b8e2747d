"""eval.py demo."""

import argparse
from pathlib import Path

import sevnet_jax
from sevnet_jax.evaluation import demo, report
from sevnet_jax.inference.denoiser import TRANSLATOR

HELP = "restores the bundled samples and writes a picture of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", default="samples", help="their folder (samples)")
    parser.add_argument("--weights", help="a file; without: the bundled ones")
    parser.add_argument("--out", default="runs/demo.png", help="the picture")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    denoise = denoise_real = sevnet_jax.load(args.weights)
    if not args.weights:  # the translator is trained for the bundled ones
        denoise_real = sevnet_jax.load(translator=TRANSLATOR)
        print(f"{demo.CAMERA}, a camera's noise, is restored with --real's translator.")
    print("Protocol rgb8:")
    print(demo.run(denoise, denoise_real, Path(args.samples), Path(args.out)))
    print(f"picture: {args.out}")
    return 0
