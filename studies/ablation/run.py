"""Trains every row of the ablation in the same stages, and scores them all.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python -m studies.ablation.run --photos FOLDER \
    --held_out FOLDER --test Kodak24 CBSD68 --workdir runs/rows

A row that stays more than 0.3 dB behind 1a on held-out photos, at gaussian 20, goes on
from its weights, in the same stages for every row, and its best is scored. 1a goes on
for as long as any of them, as a control, and is scored after each stage. Each leaves a
JSON file in --out; the curve and the features of some rows are drawn beside them, and
the tables printed (report.py makes them again). What was done already is not done
again; runs that were stopped go on. Weights that --workdir no longer has are trained
again where a run is to go on from them or be scored.
"""

import argparse
import itertools
import json
import logging
import sys
from pathlib import Path

from sevnet_jax import weights
from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import methods, protocol, runs, scenes
from sevnet_jax.evaluation.commands import curve, features
from sevnet_jax.evaluation.report import format_json
from sevnet_jax.files import write_atomically
from sevnet_jax.runtime import use_compilation_cache
from sevnet_jax.training.logs import read_metrics
from sevnet_jax.training.loop import Diverged, train
from sevnet_jax.training.recipe import Recipe, from_mapping
from studies.ablation import figures, report, scores
from studies.ablation.rows import ABLATIONS, make_ablation

PRESET = "sevnet_xs"
NARROW = "_narrow"  # behind a row's name: half the width, a quarter of the operations
ROWS = (*ABLATIONS, "unet_relu", "1a_wrapped", "2f_wrapped", f"1a{NARROW}")
SEEDS = (0, 1)
REPEATED = ("2b", "2e", "2f", "2f_wrapped")
DRAWN = ("1a", "unet_relu", "2f", "2f_wrapped")
HELD_OUT = 20  # images


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", required=True, help="clean photos; A=4,B=1: mixed")
    parser.add_argument("--held_out", required=True, help="other photos, to choose by")
    parser.add_argument("--test", required=True, nargs="+", help="folders of photos")
    parser.add_argument("--workdir", required=True, type=Path, help="for the runs")
    parser.add_argument(
        "--out", default=report.RESULTS, type=Path, help="for their results"
    )
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS, metavar="ROW")
    parser.add_argument(
        "--repeated",
        nargs="*",
        default=REPEATED,
        choices=ROWS,
        metavar="ROW",
        help=f"with a second seed, as 1a always ({' '.join(REPEATED)})",
    )
    parser.add_argument("--write", metavar="FILE", help="Markdown that gets the tables")
    args = parser.parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.INFO, force=True)
    for loud in ("jax", "orbax", "absl", "tensorflow"):
        logging.getLogger(loud).setLevel(logging.WARNING)
    use_compilation_cache()
    args.workdir = args.workdir.resolve()  # a run remembers what it started from
    try:
        check(args)
        run_all(args)
        draw(args)
        report.write(args.out, args.write)
    except (ValueError, OSError, Diverged) as error:
        print("ablation:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; rerun the same command to resume", file=sys.stderr)
        return 130
    return 0


def check(args: argparse.Namespace) -> None:
    """Raises now what would be noticed after hours."""
    find_scenes(args)
    if any(args.out.glob("*.json")):
        report.load(args.out)
    if args.write:
        report.replace_block(Path(args.write).read_text(encoding="utf-8"), "")


def find_scenes(args: argparse.Namespace) -> list[scenes.Scene]:
    return [s for test in args.test for s in scenes.from_folder(test, PAPER_COLUMNS)]


def run_all(args: argparse.Namespace) -> None:
    ours = {}
    for seed in SEEDS:
        (ours[seed],) = found = train_stages(args, scores.OURS, seed, stages=1)
        score(args, found)
    longest = report.STAGES[0].steps
    for row in (row for row in args.rows if row != scores.OURS):
        stages = 1 if row in report.SMALLER else len(report.STAGES)
        for seed in SEEDS if row in args.repeated else SEEDS[:1]:
            found = train_stages(args, row, seed, stages, ours[seed]["held_out"])
            ended = [run for run in found if run["held_out"] is not None]
            if ended:
                best = max(ended, key=lambda run: run["held_out"])
                score(args, found[: found.index(best) + 1])
                longest = max(longest, best["steps"])
    totals = itertools.accumulate(stage.steps for stage in report.STAGES)
    stages = 1 + sum(total < longest for total in totals)
    found = train_stages(args, scores.OURS, 0, stages)
    for number in range(stages):
        score(args, found[: number + 1])


def train_stages(
    args: argparse.Namespace,
    row: str,
    seed: int,
    stages: int,
    wanted: float | None = None,
) -> list[dict]:
    """Trains a row until it is close to `wanted` on held-out photos."""
    found: list[dict] = []
    for _ in range(stages):
        found.append(train_stage(args, row, seed, found))
        if scores.is_close(found[-1]["held_out"], wanted):
            break
    return found


def train_stage(
    args: argparse.Namespace, row: str, seed: int, earlier: list[dict]
) -> dict:
    """Trains the stage after some others; returns what is known of it."""
    stage = report.STAGES[len(earlier)]
    last = find_last(earlier)
    run = {
        "row": row,
        "seed": seed,
        "stage": len(earlier),
        "learning_rate": stage.learning_rate,
        "steps": stage.steps + (last["steps"] if last else 0),
        "preset": PRESET,
    }
    path = args.out / f"{report.name_run(run)}.json"
    if path.exists():
        done = json.loads(path.read_text())
        if {key: done.get(key) for key in run} != run:
            raise ValueError(f"{path} is of a run with other settings; move it away")
        return done
    start = find_weights(args, earlier)
    try:
        run["held_out"] = train_weights(args, run, start)
    except Diverged as error:
        print(error, file=sys.stderr)
        run |= {"held_out": None, "diverged_after": error.step}
    run["means"] = {}
    write(path, run)
    return run


def find_last(earlier: list[dict]) -> dict | None:
    """Returns the last run that did not diverge."""
    return next((r for r in reversed(earlier) if r["held_out"] is not None), None)


def find_weights(args: argparse.Namespace, earlier: list[dict]) -> Path | None:
    """Returns the folder of the last weights, trained again if they are gone."""
    last = find_last(earlier)
    if last is None:
        return None
    folder = args.workdir / report.name_run(last)
    if not has_weights(folder):
        start = find_weights(args, earlier[: earlier.index(last)])
        last["held_out"] = train_weights(args, last, start)
    return folder


def has_weights(folder: Path) -> bool:
    return (folder / weights.FILE).exists()


def train_weights(
    args: argparse.Namespace, run: dict, start: Path | None
) -> float | None:
    """Trains a run from given weights; returns its score on held-out photos."""
    recipe = make_recipe(args, run["row"], run["seed"], run["stage"], start)
    folder = args.workdir / report.name_run(run)
    print(f"--- {folder.name}", file=sys.stderr)
    state = train(recipe, folder, terminal=sys.stderr.isatty())
    if int(state.step) < recipe.steps:
        sys.exit("stopped; rerun the same command to resume")
    return read_held_out(folder, recipe)


def score(args: argparse.Namespace, stages: list[dict]) -> None:
    """Scores the last of some stages on all sets under all noises, if not done yet."""
    run = stages[-1]
    found = find_scenes(args)
    sets = report.find_sets({"": run})
    if run["held_out"] is None or sets == {s.data: s.set_size for s in found}:
        return
    folder = find_weights(args, stages)
    (network,) = methods.open_methods([str(folder)])
    result = runs.run(found, [network], folder / "scores", seed=0)
    if result.skipped:
        raise ValueError("some images could not be scored")
    write(args.out / f"{report.name_run(run)}.json", run | describe(result, network))
    result.progress.finish()


def make_recipe(
    args: argparse.Namespace,
    row: str,
    seed: int,
    number: int,
    start: Path | None,
) -> Recipe:
    stage = report.STAGES[number]
    keys = {
        "seed": seed + 10 * number,  # or a stage would see what the last one saw
        "init_weights": str(start or ""),
        "steps": stage.steps,
        "data": {"source": args.photos, "downscale_probability": 0.2},
        "optimizer": {"learning_rate": stage.learning_rate},
        "watch": {
            "source": args.held_out,
            "images": HELD_OUT,
            "size": 256,
            "noises": (scores.IN_DISTRIBUTION,),
        },
    }
    config = make_ablation(row.removesuffix(NARROW), PRESET, **keys)
    if row.endswith(NARROW):
        config.model.width //= 2
    return from_mapping(config)


def read_held_out(folder: Path, recipe: Recipe) -> float | None:
    """Returns the score after the last step, None if it is not finite."""
    (last,) = [
        record[f"psnr {scores.IN_DISTRIBUTION}"]
        for record in read_metrics(folder)
        if record["kind"] == "validation" and record["step"] == recipe.steps
    ]
    return last


def describe(result: runs.Run, network: methods.Method) -> dict:
    means: dict = {}
    for (data, _, noise), mean in protocol.summarize(result.scores).items():
        means.setdefault(data, {})[noise] = mean
    provenance = dict(result.provenance)
    provenance["network"] = provenance.pop("methods")[network.name]
    return {"means": means, "provenance": provenance}


def draw(args: argparse.Namespace) -> None:
    """Draws the curve and the features of rows that were trained."""
    chosen = report.choose(report.load(args.out))
    names = {run["row"]: name for name, run in chosen.items() if run["seed"] == 0}
    if any(row not in names for row in DRAWN):
        print(f"no figures: they need seed 0 of {', '.join(DRAWN)}", file=sys.stderr)
        return
    networks = {scores.label(row): names[row] for row in DRAWN}
    shown = {label: report.find_weights(chosen[n]) for label, n in networks.items()}
    photo = scenes.from_folder(args.test[0], PAPER_COLUMNS)[0].files[0]
    folder = args.out / "figures"
    for command, figure, source in (
        (curve, folder / "curve.png", ["--data", args.test[0], "--limit", "12"]),
        (features, args.workdir / "features.png", ["--image", str(photo)]),
    ):
        numbers = folder / f"{figure.stem}.json"
        if figures.find_weights(numbers) == shown:
            continue
        gone = [n for n in networks.values() if not has_weights(args.workdir / n)]
        if gone:
            print(f"no {figure.name}: no weights of {', '.join(gone)}", file=sys.stderr)
            continue
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        given = [*source, "--out", str(figure), "--json", str(numbers)]
        named = [f"{label}={args.workdir / name}" for label, name in networks.items()]
        command.run(parser.parse_args([*given, "--weights", *named]))


def write(path: Path, content: dict) -> None:
    text = format_json(content)
    write_atomically(path, lambda temporary: temporary.write_text(text))


if __name__ == "__main__":
    sys.exit(main())
