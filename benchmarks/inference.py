"""Time and peak memory of denoising against the size of the image.

python benchmarks/inference.py                   # a table, 0.1 to 24 megapixels
python benchmarks/inference.py --megapixels 0.1 0.4 1.6 6 24 100 --out cost.png

Each size has a process of its own. The images are random pixels, 3:2, 8 bit: their
noise is strong and clipped, so that clipping is undone, too.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

import sevnet_jax
from sevnet_jax.evaluation.report import check_figure_path, format_table, save_figure
from sevnet_jax.inference import tiling
from sevnet_jax.inference.denoiser import FAST_MARGIN, TILE_PIXELS
from sevnet_jax.runtime import use_compilation_cache

MEGAPIXELS = (0.1, 0.4, 1.6, 6, 24)
RATIO = 1.5  # of width to height
LARGE = 2e7  # pixels; compiling takes no time to speak of beside restoring them


def measure(height: int, width: int, fast: bool) -> dict:
    """One image in this process; its peak memory is the process's."""
    use_compilation_cache()
    denoiser = sevnet_jax.load()
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (height, width, 3), np.uint8)
    model = denoiser.weights.model
    plan = tiling.plan(
        *(-(-side // model.multiple) * model.multiple for side in (height, width)),
        FAST_MARGIN if fast else model.reach,
        model.multiple,
        TILE_PIXELS,
    )
    best = float("inf")
    for _ in range(1 if height * width > LARGE else 3):  # the first compiles
        start = time.perf_counter()
        denoiser(image, fast=fast)
        best = min(best, time.perf_counter() - start)
    return {
        "height": height,
        "width": width,
        "tiles": len(plan[0]) * len(plan[1]),
        "seconds": best,
        "microseconds_a_pixel": best / (height * width) * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def in_own_process(height: int, width: int, fast: bool) -> dict:
    command = [sys.executable, __file__, "--one", str(height), str(width)]
    done = subprocess.run(
        [*command, *(["--fast"] if fast else [])],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def draw(results: list[dict], path: str) -> None:
    """Draws time and memory against megapixels, both axes by powers of ten."""
    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    megapixels = [r["width"] * r["height"] / 1e6 for r in results]
    for axes, values, label, colour in zip(
        figure.subplots(1, 2),
        ([r["seconds"] for r in results], [r["peak_mb"] for r in results]),
        ("seconds", "peak memory, MB"),
        ("#0072B2", "#D55E00"),
        strict=True,
    ):
        axes.loglog(megapixels, values, "o-", color=colour)
        axes.set_xlabel("megapixels")
        axes.set_ylabel(label)
        axes.grid(color="#e6e6e6")
        axes.spines[["top", "right"]].set_visible(False)
        for x, y in zip(megapixels, values, strict=True):
            axes.annotate(
                f"{y:.0f}" if y >= 10 else f"{y:.2g}",
                (x, y),
                (-3, 5),
                textcoords="offset points",
                ha="right",
                fontsize=8,
            )
        axes.set_xlim(left=min(megapixels) / 3, right=2 * max(megapixels))
        axes.set_ylim(bottom=min(values) / 3, top=3 * max(values))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    save_figure(figure, path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--megapixels",
        nargs="+",
        type=float,
        default=MEGAPIXELS,
        metavar="N",
        help=f"sizes of images (default: {' '.join(map(str, MEGAPIXELS))})",
    )
    parser.add_argument("--fast", action="store_true", help="the faster mode")
    parser.add_argument("--out", help="a figure of time and memory")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(measure(*args.one, args.fast)))
        return 0
    if min(args.megapixels) <= 0:
        parser.error("--megapixels must be positive")
    if args.out:
        check_figure_path(args.out)
    results = []
    for megapixels in args.megapixels:
        height = max(1, round((megapixels * 1e6 / RATIO) ** 0.5))
        results.append(in_own_process(height, round(RATIO * height), args.fast))
        print(f"{megapixels:g} megapixels: done", file=sys.stderr)
    if args.out:
        draw(results, args.out)
    if args.json:
        print(json.dumps(results, indent=2))
        return 0
    rows = [
        [
            f"{r['width']}x{r['height']}",
            f"{r['width'] * r['height'] / 1e6:.1f}",
            str(r["tiles"]),
            f"{r['seconds']:.2f}",
            f"{r['microseconds_a_pixel']:.2f}",
            f"{r['peak_mb']:.0f}",
        ]
        for r in results
    ]
    header = ["image", "megapixels", "tiles", "s", "us a pixel", "peak MB"]
    print(format_table(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
