"""Trains every row of the ablation in the same stages, and scores them all.

GLIBC_TUNABLES=glibc.malloc.hugetlb=1 python -m studies.ablation.run --photos FOLDER \
    --held_out FOLDER --test Kodak24 CBSD68 --workdir runs/rows

A row that is more than 0.3 dB behind 1a on held-out photos, at gaussian 20, continues
from its weights. The stages are the same for every row, and the best one is scored. As
a control, 1a continues for as long as the slowest row and is scored after each stage.
Each run writes a JSON file into --out. The script also draws the curve and the features
of some rows, and prints the tables (report.py prints them again). Rerun the same
command to resume: finished runs are not repeated. Weights that are missing in --workdir
are trained again if they are needed.
"""

import argparse
import sys
from collections.abc import Sequence

from ml_collections import ConfigDict

from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import scenes
from sevnet_jax.evaluation.commands import curve, features
from studies import command, results, trainings
from studies.ablation import figures, report, scores
from studies.ablation.rows import ABLATIONS, OURS, make_ablation
from studies.trainings import Study, has_weights

PRESET = "sevnet_xs"
NARROW = "_narrow"  # behind a row's name: half the width, a quarter of the operations
ROWS = (*ABLATIONS, "unet_relu", "1a_wrapped", "2f_wrapped", f"1a{NARROW}")
SEEDS = (0, 1)
REPEATED = ("2b", "2e", "2f", "2f_wrapped")
DRAWN = ("1a", "unet_relu", "2f", "2f_wrapped")


def main(argv: list[str] | None = None) -> int:
    parser = command.make_parser(__doc__, report.RESULTS)
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS, metavar="ROW")
    parser.add_argument(
        "--repeated",
        nargs="*",
        default=REPEATED,
        choices=ROWS,
        metavar="ROW",
        help=f"rows with a second seed (default: {' '.join(REPEATED)}); 1a always has "
        "one",
    )
    args = parser.parse_args(argv)
    study = command.read_study(
        args, make_config=make_row, name_preset=lambda row: PRESET
    )

    def work() -> None:
        run_all(study, args.rows, args.repeated)
        draw(study)
        report.write(args.out, args.write)

    return command.run_study("ablation", study, args.write, work)


def make_row(row: str) -> ConfigDict:
    """Returns the recipe of a row at the size of the study."""
    config = make_ablation(row.removesuffix(NARROW), PRESET)
    if row.endswith(NARROW):
        config.model.width //= 2
    return config


def run_all(study: Study, rows: Sequence[str], repeated: Sequence[str]) -> None:
    """Trains and scores 1a, then the other rows, then 1a for as long as the slowest."""
    ours = {}
    for seed in SEEDS:
        (ours[seed],) = found = trainings.train_stages(study, OURS, seed, stages=1)
        trainings.score(study, found)
    longest = results.STAGES[0].steps
    for row in (row for row in rows if row != OURS):
        stages = 1 if row in report.SMALLER else None
        for seed in SEEDS if row in repeated else SEEDS[:1]:
            wanted = ours[seed]["held_out"]
            found = trainings.train_and_score(study, row, seed, wanted, stages)
            longest = max(longest, *(run["steps"] for run in found), 0)
    trainings.train_controls(study, OURS, longest)


def draw(study: Study) -> None:
    """Draws the curve and the features of rows that were trained."""
    chosen = report.choose(results.load(study.out))
    names = {run["row"]: name for name, run in chosen.items() if run["seed"] == 0}
    if any(row not in names for row in DRAWN):
        print(f"no figures: they need seed 0 of {', '.join(DRAWN)}", file=sys.stderr)
        return
    networks = {scores.label(row): names[row] for row in DRAWN}
    shown = {label: results.find_weights(chosen[n]) for label, n in networks.items()}
    photo = scenes.from_folder(study.test[0], PAPER_COLUMNS)[0].files[0]
    folder = study.out / "figures"
    for tool, figure, source in (
        (curve, folder / "curve.png", ["--data", study.test[0], "--limit", "12"]),
        (features, study.workdir / "features.png", ["--image", str(photo)]),
    ):
        numbers = folder / f"{figure.stem}.json"
        if figures.find_weights(numbers) == shown:
            continue
        gone = [n for n in networks.values() if not has_weights(study.workdir / n)]
        if gone:
            print(f"no {figure.name}: no weights of {', '.join(gone)}", file=sys.stderr)
            continue
        parser = argparse.ArgumentParser()
        tool.add_arguments(parser)
        given = [*source, "--out", str(figure), "--json", str(numbers)]
        named = [f"{label}={study.workdir / name}" for label, name in networks.items()]
        tool.run(parser.parse_args([*given, "--weights", *named]))


if __name__ == "__main__":
    sys.exit(main())
