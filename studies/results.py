"""Result files of trained runs, one JSON each, and the table rows made from them."""

import argparse
import dataclasses
import json
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax.evaluation.report import format_json
from sevnet_jax.evaluation.tables import Means
from sevnet_jax.files import write_atomically
from sevnet_jax.training.recipe import SECTIONS, find_new_name
from studies.means import add_means

# A network this far below the reference in distribution is not trained to its end: what
# it scores out of distribution says little about its design.
CONVERGED_WITHIN = 0.3
METRICS = ("psnr", "ssim")
KEYS = ("row", "seed", "stage", "learning_rate", "steps", "held_out", "means")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
Run = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a training."""

    learning_rate: float
    steps: int


# One after the other, each from the weights of the last that did not diverge, until a
# network is as good in distribution as the reference was after the first.
STAGES = (
    Stage(1.5e-3, 6000),
    Stage(3e-3, 12000),
    Stage(1.5e-3, 12000),
    Stage(3e-4, 12000),
)


@dataclasses.dataclass(frozen=True)
class Row:
    """The mean over the runs of one row; `spread` is their standard deviation."""

    name: str
    runs: tuple[str, ...]
    psnr: Mapping[str, float]
    ssim: Mapping[str, float]
    spread: Mapping[str, float]

    def label(self, text: str) -> str:
        """Returns a name for the row that says of how many runs it is, if of more."""
        if len(self.runs) == 1:
            return text
        spread = f"std up to {max(self.spread.values()):.2f} dB"
        return f"{text}, {len(self.runs)} runs, {spread}"

    def score(self, noise: str) -> str:
        """Returns PSNR / SSIM."""
        psnr = self.psnr[noise]
        ssim = f" / {self.ssim[noise]:.4f}" if math.isfinite(psnr) else ""
        return format_psnr(psnr) + ssim

    def cut(self, noises: Sequence[str]) -> "Row":
        """Returns the same with some of its noises."""
        fields = {
            name: {n: values[n] for n in noises if n in values}
            for name in ("psnr", "ssim", "spread")
            for values in [getattr(self, name)]
        }
        return dataclasses.replace(self, **fields)


def format_psnr(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "not finite"


def load(folder: str | Path) -> dict[str, Run]:
    """Returns all runs by name; those of one set must be of the same images."""
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise ValueError(f"no results of runs (*.json) in {str(folder)!r}")
    runs: dict[str, Run] = {}
    known: dict[str, dict[str, int]] = {}  # the images of each set
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
        known = {**images, **known}
        if any(known[data] != counts for data, counts in images.items()):
            raise ValueError(f"{path} was scored on other images than the other runs")
    return runs


def name_run(run: Run) -> str:
    """Returns the name of a run's file and folder."""
    return f"{run['row']}_seed{run['seed']}_stage{run['stage']}"


def write_run(folder: Path, run: Run) -> None:
    """Writes the file of a run."""
    text = format_json(run)
    path = folder / f"{name_run(run)}.json"
    write_atomically(path, lambda temporary: temporary.write_text(text))


def is_close(score: float | None, wanted: float | None) -> bool:
    """Whether a score in distribution is as good as one; None: training diverged."""
    if score is None or wanted is None:
        return False
    return score >= wanted - CONVERGED_WITHIN  # NaN is not


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
    """Returns the sets that all runs were scored on, and how many images they have."""
    scored = [run["means"] for run in runs.values() if run["means"]]
    return {
        data: max(mean["images"] for mean in means.values())
        for data, means in (scored[0].items() if scored else ())
        if all(data in others for others in scored)
    }


def collect(rows: Mapping[str, str], means: Means, order: Sequence[str]) -> list[Row]:
    """Returns the rows that were run, in an order.

    `rows` has the row of each method, `means` are of one set.
    """
    noises = list(dict.fromkeys(noise for _, _, noise in means))
    found = []
    for name in sorted(set(rows.values()), key=order.index):
        runs = [run for run, row in rows.items() if row == name]
        scores = {
            noise: [m for (_, run, n), m in means.items() if n == noise and run in runs]
            for noise in noises
        }
        psnr = {noise: [mean["psnr"] for mean in scores[noise]] for noise in noises}
        found.append(
            Row(
                name,
                tuple(runs),
                {n: float(np.mean(psnr[n])) for n in noises},
                {n: float(np.mean([m["ssim"] for m in scores[n]])) for n in noises},
                {n: float(np.std(psnr[n], ddof=len(runs) > 1)) for n in noises},
            )
        )
    return found


def collect_runs(runs: Mapping[str, Run], data: str, order: Sequence[str]) -> list[Row]:
    """Returns the rows of one set, with the means out of distribution."""
    means = {}
    for name, run in runs.items():
        cells = {
            noise: {m: math.nan if mean[m] is None else mean[m] for m in METRICS}
            for noise, mean in run["means"][data].items()
        }
        for noise, cell in add_means(cells).items():
            means[data, name, noise] = cell
    return collect({name: run["row"] for name, run in runs.items()}, means, order)


def replace_block(document: str, tables: str) -> str:
    """Returns a document with the tables between its two marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"


def write_tables(tables: str, document: str | Path | None) -> None:
    """Prints tables, and puts them into a document."""
    print(tables, end="")
    if document:
        text = replace_block(Path(document).read_text(encoding="utf-8"), tables)
        write_atomically(document, lambda part: part.write_text(text, encoding="utf-8"))


def run_report(
    argv: Sequence[str] | None,
    description: str | None,
    folder: Path,
    write: Callable[[str | Path, str | Path | None], None],
) -> int:
    """Runs a study's report as a command, and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs",
        default=folder,
        metavar="FOLDER",
        help="folder of result files, one JSON per run",
    )
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="Markdown file whose tables, between the markers, are replaced",
    )
    args = parser.parse_args(argv)
    try:
        write(args.runs, args.write)
    except (ValueError, OSError) as error:
        print("report.py:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0
