"""Trains every row of the ablation with the same small budget, and scores them all.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python benchmarks/ablations.py --photos FOLDER \
    --held_out FOLDER --test Kodak24 CBSD68 --workdir runs/rows --out docs/ablations

A row that stays more than 0.3 dB behind 1a on held-out photos, at gaussian 20, is
trained again: with another learning rate, then for longer, the same for every row. Each
run leaves a JSON file in --out, from which `eval.py study` makes tables and figures.
What was done already is not done again; runs that were stopped go on.
"""

import argparse
import dataclasses
import json
import logging
import sys
import time
from pathlib import Path

from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import (
    ablation,
    methods,
    protocol,
    report,
    runner,
    scenes,
    study,
)
from sevnet_jax.files import write_atomically
from sevnet_jax.models import ABLATIONS
from sevnet_jax.runtime import use_compilation_cache
from sevnet_jax.training.logs import read_metrics
from sevnet_jax.training.loop import Diverged, train
from sevnet_jax.training.recipe import Recipe, from_mapping, make_ablation

PRESET = "sevnet_xs"
ROWS = (*ABLATIONS, "unet_relu", "1a_wrapped", "2f_wrapped")
REPEATED = ("1a", "2b", "2e", "2f")  # with a second seed
HELD_OUT = 20  # images


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", required=True, help="clean photos; A=4,B=1: mixed")
    parser.add_argument("--held_out", required=True, help="other photos, to choose by")
    parser.add_argument("--test", required=True, nargs="+", help="folders of photos")
    parser.add_argument("--workdir", required=True, type=Path, help="for the runs")
    parser.add_argument("--out", required=True, type=Path, help="for their results")
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS, metavar="ROW")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)
    for loud in ("jax", "orbax", "absl", "tensorflow"):
        logging.getLogger(loud).setLevel(logging.WARNING)
    use_compilation_cache()
    rows = ["1a", *(row for row in args.rows if row != "1a")]  # what others must reach
    wanted = None
    for seed, repeated in ((0, rows), (1, [r for r in rows if r in REPEATED])):
        for row in repeated:
            for trial in study.TRIALS:
                score = run(args, row, seed, trial)
                wanted = wanted or score
                if study.is_close(score, wanted):
                    break
    return 0


def run(
    args: argparse.Namespace, row: str, seed: int, trial: study.Trial
) -> float | None:
    """Trains and scores one run; returns its score on held-out photos."""
    name = f"{row}_seed{seed}{trial.suffix}"
    path = args.out / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text())["held_out"]
    recipe = from_mapping(
        make_ablation(
            row,
            PRESET,
            source=args.photos,
            seed=seed,
            downscale_probability=0.2,
            learning_rate=trial.learning_rate,
            steps=trial.steps,
            validation_source=args.held_out,
            validation_images=HELD_OUT,
            validation_size=256,
            validation_noises=(ablation.IN_DISTRIBUTION,),
        )
    )
    print(f"--- {name}", file=sys.stderr)
    folder, began = args.workdir / name, time.perf_counter()
    about = {"row": row, "seed": seed, **dataclasses.asdict(trial)}
    try:
        state = train(recipe, folder, terminal=sys.stderr.isatty())
    except Diverged as error:
        print(error, file=sys.stderr)
        write(path, {**about, "held_out": None, "diverged": str(error), "means": {}})
        return None
    if int(state.step) < recipe.steps:
        sys.exit("stopped; the same command goes on from there")
    seconds = time.perf_counter() - began
    content = {
        **about,
        "held_out": read_held_out(folder, recipe),
        "minutes": round(seconds / 60, 1),  # of the last session, if there were several
        **score(folder, args.test),
    }
    write(path, content)
    return content["held_out"]


def read_held_out(folder: Path, recipe: Recipe) -> float:
    (last,) = [
        record[f"psnr {recipe.validation_noises[0]}"]
        for record in read_metrics(folder)
        if record["kind"] == "validation" and record["step"] == recipe.steps
    ]
    return last


def score(folder: Path, sets: list[str]) -> dict:
    found = [
        scene for path in sets for scene in scenes.from_folder(path, PAPER_COLUMNS)
    ]
    (network,) = methods.open_methods([str(folder)])
    result = runner.run(found, [network], folder / "scores", seed=0)
    means: dict = {}
    for (data, _, noise), mean in protocol.summarize(result.scores).items():
        means.setdefault(data, {})[noise] = mean
    result.progress.finish()
    if result.skipped:
        sys.exit("some images could not be scored")
    provenance = dict(result.provenance)
    provenance["network"] = provenance.pop("methods")[network.name]
    return {"means": means, "provenance": provenance}


def write(path: Path, content: dict) -> None:
    text = report.format_json(content)
    write_atomically(path, lambda temporary: temporary.write_text(text))


if __name__ == "__main__":
    sys.exit(main())
