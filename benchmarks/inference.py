"""Time and peak memory of denoising against the size of the image, tiled and whole.

python benchmarks/inference.py
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

import sevnet_jax
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.inference import tiling
from sevnet_jax.inference.denoiser import TILE_PIXELS
from sevnet_jax.runtime import use_compilation_cache

SIZES = ((512, 768), (1200, 1800), (2000, 3000), (4000, 6000))
WHOLE = (1600, 1600)  # what the time a pixel is compared with, untiled


def measure(height: int, width: int, fast: bool) -> dict:
    """One image in this process; its peak memory is the process's."""
    use_compilation_cache()
    denoiser = sevnet_jax.load()
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (height, width, 3), np.uint8)
    model = denoiser.weights.model
    plan = tiling.plan(
        *(-(-side // model.multiple) * model.multiple for side in (height, width)),
        model.reach,
        model.multiple,
        TILE_PIXELS,
    )
    best = float("inf")
    for _ in range(2):  # the first compiles
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
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--fast", action="store_true", help="the faster mode")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(measure(*args.one, args.fast)))
        return 0
    whole = in_own_process(*WHOLE, False)
    results = [in_own_process(*size, args.fast) for size in SIZES]
    if args.json:
        print(json.dumps({"whole": whole, "sizes": results}, indent=2))
        return 0
    rows = [
        [
            f"{r['width']}x{r['height']}",
            f"{r['width'] * r['height'] / 1e6:.1f}",
            str(r["tiles"]),
            f"{r['seconds']:.1f}",
            f"{r['microseconds_a_pixel']:.2f}",
            f"{r['microseconds_a_pixel'] / whole['microseconds_a_pixel']:.2f}",
            f"{r['peak_mb']:.0f}",
        ]
        for r in [*results, whole]
    ]
    header = [
        "image",
        "megapixels",
        "tiles",
        "s",
        "us a pixel",
        "to the last",
        "peak MB",
    ]
    print(format_table(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
