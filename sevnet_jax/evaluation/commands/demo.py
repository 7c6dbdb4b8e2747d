"""eval.py demo: the bundled samples restored, their scores, and one picture."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sevnet_jax
from sevnet_jax import images, metrics
from sevnet_jax.evaluation import report, sheet
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.evaluation.sheet import Panel

HELP = "restores the bundled samples and writes a picture of them"
NOISY = "_noisy_"  # NAME_noisy_LAW.png beside NAME_clean.png


def find_samples(folder: Path) -> list[tuple[str, str, Path, Path]]:
    """Returns name, noise, noisy and clean file of each sample."""
    found = []
    for noisy in sorted(folder.glob(f"*{NOISY}*.png")):
        name, law = noisy.stem.split(NOISY)
        clean = folder / f"{name}_clean.png"
        if not clean.is_file():
            raise ValueError(f"{noisy} has no {clean.name} beside it")
        found.append((name, law.replace("-", ":"), noisy, clean))
    if not found:
        raise ValueError(f"no samples in {str(folder)!r}")
    return found


def restore_samples(
    denoise: Callable[[np.ndarray], np.ndarray], folder: Path, out: Path
) -> str:
    """Writes the picture, returns the table."""
    rows, pictures = [], []
    for name, law, noisy_file, clean_file in find_samples(folder):
        noisy, clean = (
            images.to_channels(images.read_named_pixels(path), 3)
            for path in (noisy_file, clean_file)
        )
        restored = denoise(noisy)
        before, after = (metrics.psnr(image, clean) for image in (noisy, restored))
        ssims = (metrics.ssim(image, clean) for image in (noisy, restored))
        rows.append(
            [name, law, f"{before:.2f}", f"{after:.2f}", *(f"{s:.3f}" for s in ssims)]
        )
        pictures.append((law, before, after, noisy, restored))
    draw(pictures, out)
    header = [
        "sample",
        "noise",
        "noisy dB",
        "restored dB",
        "noisy SSIM",
        "restored SSIM",
    ]
    return format_table(header, rows)


def draw(pictures: list[tuple], out: Path) -> None:
    """Writes a column for each sample: noisy above, restored below."""
    above = [Panel(f"{law}, {before:.1f} dB", n) for law, before, _, n, _ in pictures]
    below = [Panel(f"restored, {after:.1f} dB", r) for _, _, after, _, r in pictures]
    sheet.draw([above, below], out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--samples", default="samples", help="folder of the samples (default: samples)"
    )
    parser.add_argument("--weights", help="a weights file (default: bundled weights)")
    parser.add_argument("--out", default="runs/demo.png", help="the picture")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    denoise = sevnet_jax.load(args.weights)
    print("Protocol rgb8:")
    print(restore_samples(denoise, Path(args.samples), Path(args.out)))
    print(f"picture: {args.out}")
    return 0
