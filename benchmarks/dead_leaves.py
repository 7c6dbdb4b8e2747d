"""Trains a small denoiser on photos and one on drawn images, and tests both on photos.

python benchmarks/dead_leaves.py --photos FOLDER --test FOLDER --workdir runs/leaves

Both runs are those of train.py. Rerun the same command to resume.
"""

import argparse
import logging
import sys
from pathlib import Path

from sevnet_jax.evaluation import methods, protocol, runs, scenes, tables
from sevnet_jax.runtime import use_compilation_cache
from sevnet_jax.training.loop import train
from sevnet_jax.training.recipe import from_mapping, make_config

OPTIMIZER = {
    "learning_rate": 1.5e-3,
    "schedule": "cosine",
    "warmup_steps": 500,
    "clip_norm": 0.1,
}
SMALLER = {"width": 24, "blocks": (1, 1), "bottleneck": 1}
NOISES = ("gaussian:20", "speckle:60", "speckle:90", "mixture")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", required=True, help="folder of clean photos")
    parser.add_argument("--test", required=True, help="folder of other clean photos")
    parser.add_argument("--workdir", required=True, type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--limit", type=int, help="test images (all)")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    use_compilation_cache()
    for name, source in (("photos", args.photos), ("dead_leaves", "dead_leaves")):
        config = make_config(
            "sevnet_s",
            SMALLER,
            steps=args.steps,
            data={"source": source, "batch_size": 16, "patch_size": 48},
            optimizer=OPTIMIZER,
        )
        recipe = from_mapping(config)
        state = train(recipe, args.workdir / name, terminal=sys.stderr.isatty())
        if int(state.step) < recipe.steps:
            sys.exit("stopped; rerun the same command to resume")
    trained = methods.open_methods(
        [str(args.workdir / name) for name in ("photos", "dead_leaves")], ["noisy"]
    )
    found = scenes.from_folder(args.test, NOISES, limit=args.limit)
    result = runs.run(found, trained, args.workdir, seed=0)
    means = protocol.summarize(result.scores)
    print(f"{args.steps} steps each, on:")
    print(tables.format_text(tables.build(means, result.set_sizes, "none")))
    result.progress.finish()
    return runs.report_skipped(result)


if __name__ == "__main__":
    sys.exit(main())
