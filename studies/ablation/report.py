"""The tables of the trained ablation, from the files that run.py wrote, one a run.

python -m studies.ablation.report --write studies/ablation/README.md
"""

import argparse
import dataclasses
import itertools
import json
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sevnet_jax.evaluation.protocol import count_images
from sevnet_jax.evaluation.report import format_markdown
from sevnet_jax.files import write_atomically
from sevnet_jax.training.recipe import SECTIONS, find_new_name
from studies.ablation import chance, claims, figures, rows, scores
from studies.ablation.means import OOD, add_means
from studies.ablation.scores import OURS, Row, is_close

RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
METRICS = ("psnr", "ssim")
SMALLER = ("1a_narrow",)
KEYS = ("row", "seed", "stage", "learning_rate", "steps", "held_out", "means")
SHOWN = (*scores.NOISES, OOD)
Run = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a row's training."""

    learning_rate: float
    steps: int


# One after the other, each from the weights of the last that did not diverge, until a
# row is as good in distribution as 1a was after the first; the same for all.
STAGES = (
    Stage(1.5e-3, 6000),
    Stage(3e-3, 12000),
    Stage(1.5e-3, 12000),
    Stage(3e-4, 12000),
)


def load(folder: str | Path) -> dict[str, Run]:
    """Returns all runs by name; those of one set must be of the same images."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise ValueError(f"no results of runs, *.json, in {str(folder)!r}")
    runs, first = {}, None
    for path in paths:
        try:
            runs[path.stem] = run = json.loads(path.read_text())
            operator.itemgetter(*KEYS)(run)  # or the run is not complete
            images = {
                data: {noise: mean["images"] for noise, mean in means.items()}
                for data, means in run["means"].items()
            }
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} holds no run: {error!r}") from None
        first = first or images
        if images and images != first:
            raise ValueError(f"{path} was scored on other images than the others")
    return runs


def choose(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Returns the runs that count: of each row and seed the best on held-out photos.

    Of 1a the first stage: the others are rows of their own, as controls, or rows that
    came early would be held against a longer training. A seed that stays late is left
    out if another of its row does not.
    """
    best = _find_best(runs)
    on_time = {run["row"] for run in best.values() if not is_late(run, best)}
    return {
        name: run
        for name, run in best.items()
        if run["row"] not in on_time or not is_late(run, best)
    }


def _find_best(runs: Mapping[str, Run]) -> dict[str, Run]:
    best: dict[tuple[str, int], str] = {}
    for name, run in runs.items():
        if not run["means"]:
            continue
        key = (name_row(run), run["seed"])
        if key not in best or run["held_out"] > runs[best[key]]["held_out"]:
            best[key] = name
    return {name: {**runs[name], "row": row} for (row, _), name in best.items()}


def name_run(run: Run) -> str:
    """Returns the name of a run's file and folder."""
    return f"{run['row']}_seed{run['seed']}_stage{run['stage']}"


def name_row(run: Run) -> str:
    """Returns the row that a run stands for: each control for itself."""
    control = run["row"] == OURS and run["stage"] > 0
    return f"{OURS}_stage{run['stage']}" if control else run["row"]


def is_late(run: Run, best: Mapping[str, Run]) -> bool:
    """Whether a run is behind 1a of its seed in distribution, and not by its size."""
    wanted = {r["seed"]: r["held_out"] for r in best.values() if r["row"] == OURS}
    if not wanted or run["row"] in SMALLER:
        return False
    return not is_close(run["held_out"], wanted.get(run["seed"], wanted.get(0)))


def find_weights(run: Run) -> str:
    """Returns the hash of the weights that were scored."""
    return run["provenance"]["network"]["weights_sha256"]


def find_recipe(run: Run) -> dict[str, Any]:
    """Returns the recipe of a scored run as {section.key: value}.

    Runs of earlier versions have a flat one.
    """
    recipe = run["provenance"]["network"]["training"]["recipe"]
    if not any(section in recipe for section in SECTIONS):
        return {find_new_name(key) or key: value for key, value in recipe.items()}
    inner = {
        f"{section}.{key}": value
        for section in SECTIONS
        for key, value in recipe[section].items()
    }
    return {k: v for k, v in recipe.items() if k not in SECTIONS} | inner


def find_sets(runs: Mapping[str, Run]) -> dict[str, int]:
    """Returns the sets that runs were scored on, and how many images they have."""
    return {
        data: max(mean["images"] for mean in means.values())
        for run in runs.values()
        for data, means in run["means"].items()
    }


def collect(runs: Mapping[str, Run], data: str) -> list[Row]:
    """Returns the rows of one set, with the means out of distribution."""
    means = {}
    for name, run in runs.items():
        cells = {
            noise: {m: math.nan if mean[m] is None else mean[m] for m in METRICS}
            for noise, mean in run["means"][data].items()
        }
        for noise, cell in add_means(cells).items():
            means[data, name, noise] = cell
    return scores.collect({name: run["row"] for name, run in runs.items()}, means)


def format_training(runs: Mapping[str, Run], chosen: Mapping[str, Run]) -> str:
    """Returns how each run was trained, how far it came, and its means if scored."""
    order = [*rows.DESCRIPTIONS]
    sets = find_sets(runs)

    def mean(run: Run, data: str) -> str:
        if not run["means"]:
            return "-"
        (row,) = collect({"": run}, data)
        return f"{row.psnr[OOD]:.2f}"

    cells = [
        [
            run["row"],
            str(run["seed"]),
            f"{run['learning_rate']:g}",
            *_describe_training(run),
            *(mean(run, data) for data in sets),
            f"as {chosen[name]['row']}" if name in chosen else "no",
        ]
        for name, run in sorted(
            runs.items(),
            key=lambda item: (order.index(item[1]["row"]), item[1]["seed"], item[0]),
        )
    ]
    header = ["row", "seed", "last learning rate", "steps in all"]
    header += ["held-out photos, dB", *(f"{data}, {OOD}, dB" for data in sets)]
    return format_markdown([*header, "counts"], cells)


def _describe_training(run: Run) -> tuple[str, str]:
    """Returns the steps and where they led."""
    if run["held_out"] is None:
        after = run.get("diverged_after")
        return str(run["steps"]), f"diverged after {after}" if after else "not finite"
    return str(run["steps"]), f"{run['held_out']:.2f}"


def format_study(runs: Mapping[str, Run]) -> str:
    """Returns all tables in Markdown."""
    chosen = choose(runs)
    diverged = find_diverged(runs)
    controls = find_controls(chosen)
    late = [run["row"] for run in chosen.values() if is_late(run, chosen)]
    late = sorted(set(late), key=[*rows.DESCRIPTIONS].index)
    parts = []
    for data, images in find_sets(chosen).items():
        found = collect(chosen, data)
        parts.append(
            scores.format_rows(
                [_cut(row, SHOWN) for row in found],
                data,
                count_images(images, images),
                lambda *table: "\n" + format_markdown(*table),
                late,
            )
        )
        if any(row.name == OURS for row in found):
            table = format_markdown(
                *claims.judge(found, late, diverged, controls, data)
            )
            parts.append(f"The claims on {data}, differences in dB:\n\n{table}\n")
            parts.append(chance.compare_kinds(found, late))
    parts.append(f"All runs:\n\n{format_training(runs, chosen)}\n")
    return "\n".join(parts)


def find_diverged(runs: Mapping[str, Run]) -> list[str]:
    """Returns the rows that diverged in every stage, whatever the seed."""
    ended: dict[str, dict[int, list[bool]]] = {}
    for run in runs.values():
        seeds = ended.setdefault(run["row"], {})
        seeds.setdefault(run["seed"], []).append(run["held_out"] is not None)
    return [
        row
        for row, seeds in ended.items()
        if all(not any(s) and len(s) >= len(STAGES) for s in seeds.values())
    ]


def find_controls(chosen: Mapping[str, Run]) -> dict[str, str]:
    """Returns, for rows that needed more than the first stage, 1a after as much."""
    steps: dict[str, int] = {}
    for run in chosen.values():
        steps[run["row"]] = max(run["steps"], steps.get(run["row"], 0))
    totals = [*itertools.accumulate(stage.steps for stage in STAGES)]
    return {
        row: f"{OURS}_stage{sum(total < count for total in totals)}"
        for row, count in steps.items()
        if count > totals[0] and not row.startswith(OURS)
    }


def _cut(row: Row, noises: Sequence[str]) -> Row:
    fields = {
        field: {n: getattr(row, field)[n] for n in noises if n in getattr(row, field)}
        for field in ("psnr", "ssim", "spread")
    }
    return dataclasses.replace(row, **fields)


def replace_block(document: str, tables: str) -> str:
    """Returns a document with the tables between its two marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def write(runs: str | Path, document: str | Path | None = None) -> None:
    """Prints all tables of a folder of runs, and puts them into a document."""
    tables = format_study(load(runs)) + figures.format_figures(runs)
    print(tables, end="")
    if document:
        text = replace_block(Path(document).read_text(encoding="utf-8"), tables)
        write_atomically(document, lambda part: part.write_text(text, encoding="utf-8"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", default=RESULTS, metavar="FOLDER", help="with a JSON file for each"
    )
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="Markdown whose block between the marks is replaced",
    )
    args = parser.parse_args(argv)
    try:
        write(args.runs, args.write)
    except (ValueError, OSError) as error:
        print("report.py:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
