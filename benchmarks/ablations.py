"""Trains every row of the ablation with the same small budget, and scores them all.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python benchmarks/ablations.py --photos FOLDER \
    --held_out FOLDER --test Kodak24 CBSD68 --workdir runs/rows --out docs/ablations
python eval.py study --runs docs/ablations --write docs/results.md

A row that stays more than 0.3 dB behind 1a on held-out photos, at gaussian 20, is
trained again: with another learning rate, then for longer, the same for every row. 1a
goes through all of it, as a control. Each run leaves a JSON file in --out; the curve
and the features of three rows are drawn there at the end. What was done already is not
done again; runs that were stopped go on.
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
from sevnet_jax.evaluation.commands import curve, features
from sevnet_jax.files import write_atomically
from sevnet_jax.models import ABLATIONS
from sevnet_jax.runtime import use_compilation_cache
from sevnet_jax.training.logs import read_metrics
from sevnet_jax.training.loop import Diverged, train
from sevnet_jax.training.recipe import Recipe, from_mapping, make_ablation

PRESET = "sevnet_xs"
ROWS = (*ABLATIONS, "unet_relu", "1a_wrapped", "2f_wrapped")
REPEATED = ("1a", "2b", "2e", "2f")  # with a second seed
DRAWN = ("1a", "unet_relu", "2f")
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
    try:
        run_all(args)
        draw(args)
    except (ValueError, OSError) as error:
        print("ablations.py:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


def run_all(args: argparse.Namespace) -> None:
    others = [row for row in args.rows if row != ablation.OURS]
    for seed, repeated in ((0, others), (1, [r for r in others if r in REPEATED])):
        wanted = run(args, ablation.OURS, seed, study.TRIALS[0])
        for row in repeated:
            for trial in study.TRIALS:
                if study.is_close(run(args, row, seed, trial), wanted):
                    break
    for trial in study.TRIALS[1:]:
        run(args, ablation.OURS, 0, trial)


def run(
    args: argparse.Namespace, row: str, seed: int, trial: study.Trial
) -> float | None:
    """Trains and scores one run; returns its score on held-out photos."""
    name = f"{row}_seed{seed}_{trial.name}"
    path = args.out / f"{name}.json"
    found = [s for test in args.test for s in scenes.from_folder(test, PAPER_COLUMNS)]
    about = {
        "row": row,
        "seed": seed,
        **dataclasses.asdict(trial),
        "preset": PRESET,
        "images": {scene.data: scene.set_size for scene in found},
    }
    if path.exists():
        done = json.loads(path.read_text())
        if {key: done.get(key) for key in about} != about:
            raise ValueError(f"{path} is of a run with other settings; move it away")
        return done["held_out"]
    recipe = make_recipe(args, row, seed, trial)
    print(f"--- {name}", file=sys.stderr)
    folder, began = args.workdir / name, time.perf_counter()
    try:
        state = train(recipe, folder, terminal=sys.stderr.isatty())
    except Diverged as error:
        print(error, file=sys.stderr)
        write(path, {**about, "held_out": None, "means": {}})
        return None
    if int(state.step) < recipe.steps:
        sys.exit("stopped; the same command goes on from there")
    seconds = time.perf_counter() - began
    (network,) = methods.open_methods([str(folder)])
    result = runner.run(found, [network], folder / "scores", seed=0)
    if result.skipped:
        raise ValueError("some images could not be scored")
    held_out = read_held_out(folder, recipe)
    about |= {"held_out": held_out, "minutes": round(seconds / 60, 1)}
    write(path, {**about, **describe(result, network)})
    result.progress.finish()
    return held_out


def make_recipe(
    args: argparse.Namespace, row: str, seed: int, trial: study.Trial
) -> Recipe:
    keys = {
        "source": args.photos,
        "seed": seed,
        "downscale_probability": 0.2,
        "learning_rate": trial.learning_rate,
        "steps": trial.steps,
        "validation_source": args.held_out,
        "validation_images": HELD_OUT,
        "validation_size": 256,
        "validation_noises": (ablation.IN_DISTRIBUTION,),
    }
    return from_mapping(make_ablation(row, PRESET, **keys))


def read_held_out(folder: Path, recipe: Recipe) -> float:
    (last,) = [
        record[f"psnr {ablation.IN_DISTRIBUTION}"]
        for record in read_metrics(folder)
        if record["kind"] == "validation" and record["step"] == recipe.steps
    ]
    return last


def describe(result: runner.Run, network: methods.Method) -> dict:
    means: dict = {}
    for (data, _, noise), mean in protocol.summarize(result.scores).items():
        means.setdefault(data, {})[noise] = mean
    provenance = dict(result.provenance)
    provenance["network"] = provenance.pop("methods")[network.name]
    return {"means": means, "provenance": provenance}


def draw(args: argparse.Namespace) -> None:
    """Draws the curve and the features of rows that were trained."""
    names = [f"{row}_seed0_{study.TRIALS[0].name}" for row in DRAWN]
    folders = [args.workdir / name for name in names]
    if not all((folder / "weights.safetensors").exists() for folder in folders):
        return
    photo = scenes.from_folder(args.test[0], PAPER_COLUMNS)[0].files[0]
    for command, source in (
        (curve, ["--data", args.test[0], "--limit", "12"]),
        (features, ["--image", str(photo)]),
    ):
        name = command.__name__.rsplit(".")[-1]
        figures = args.out / "figures"
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        given = [*source, "--weights", *map(str, folders)]
        given += ["--out", str(figures / f"{name}.png")]
        given += ["--json", str(figures / f"{name}.json")]
        command.run(parser.parse_args(given))


def write(path: Path, content: dict) -> None:
    text = report.format_json(content)
    write_atomically(path, lambda temporary: temporary.write_text(text))


if __name__ == "__main__":
    sys.exit(main())
