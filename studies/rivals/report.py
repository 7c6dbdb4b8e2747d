"""Tables and figure of the trained rivals, from the result files that run.py wrote.

python -m studies.rivals.report --write studies/rivals/README.md
"""

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sevnet_jax.evaluation.protocol import DESCRIPTION, count_images
from studies import results, selection
from studies.ablation import report as ablation
from studies.ablation.rows import REFERENCE
from studies.means import OOD
from studies.results import Row, Run
from studies.rivals import curve, networks, tables
from studies.rivals.networks import NOISY, ONLY, OURS, PAPER

RESULTS = Path(__file__).parent / "results"
NOTHING = "No network is trained and scored yet.\n"
TRAINED_AS = ("preset", "photos", "chosen_by", "steps")
UNTRAINED = tuple(row + ONLY for row in PAPER)  # for the wrapper they are in


def choose(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Returns the runs of networks that count."""
    trained = {name: run for name, run in runs.items() if run["row"] != NOISY}
    return selection.choose(trained, OURS, UNTRAINED)


def collect(runs: Mapping[str, Run], data: str) -> list[Row]:
    """Returns the rows of one set, with the means out of distribution."""
    return results.collect_runs(runs, data, [*networks.describe()])


def find_keepers(chosen: Mapping[str, Run], data: str) -> list[Row]:
    """Returns the ablation's rows that keep the law, trained and scored as ours was."""

    def describe(run: Run) -> list:
        images = {mean["images"] for mean in run["means"].get(data, {}).values()}
        return [images, *(run.get(key) for key in TRAINED_AS)]

    ours = [describe(run) for run in chosen.values() if run["row"] == OURS]
    trained = ablation.choose(results.load(ablation.RESULTS))
    keepers = {
        name: run
        for name, run in trained.items()
        if run["row"] in REFERENCE and data in run["means"]
        if describe(run) in ours
    }
    return ablation.collect(keepers, data)


def find_losers(runs: Mapping[str, Run], among: Sequence[str]) -> list[str]:
    """Returns rivals by what they score out of distribution, the lowest first.

    On the first set and of the first seed, which all have: the choice stays the same
    when second seeds are trained. Those that did not converge come last.
    """
    chosen = {k: run for k, run in choose(runs).items() if run["seed"] == 0}
    late = selection.list_late(chosen, OURS)
    data = next(iter(results.find_sets(chosen)))

    def judge(row: Row) -> tuple[bool, float]:
        score = row.psnr[OOD]
        return row.name in late, score if math.isfinite(score) else -math.inf

    rivals = {*among} & {*PAPER}
    found = [row for row in collect(chosen, data) if row.name in rivals]
    return [row.name for row in sorted(found, key=judge)]


def find_bare(chosen: Mapping[str, Run], runs: Mapping[str, Run]) -> dict[str, Run]:
    """Returns the runs whose weights were put into a wrapper afterwards."""
    names = [name.replace(ONLY, "") for name in chosen if ONLY in name]
    return {name: runs[name] for name in names}


def format_study(runs: Mapping[str, Run]) -> str:
    """Returns all tables in Markdown."""
    chosen = choose(runs)
    if not chosen:
        return NOTHING
    late = selection.list_late(chosen, OURS, UNTRAINED)
    controls = selection.find_controls(chosen, OURS)
    noisy = {name: run for name, run in runs.items() if run["row"] == NOISY}
    parts = [tables.describe_data(chosen)]
    for data, images in results.find_sets({**noisy, **chosen}).items():
        found = collect(chosen, data)
        keepers = find_keepers(chosen, data)
        title = f"{data}, {count_images(images, images)}"
        scores = tables.tabulate(collect({**noisy, **chosen}, data))
        parts.append(f"{title}, PSNR / SSIM, {DESCRIPTION}:\n\n{scores}\n")
        for kind, table in (
            (
                f"difference to {OURS}",
                tables.compare(found, late, controls, data, keepers),
            ),
            (
                "difference to the same network bare",
                tables.compare_wrapped(found, collect(find_bare(chosen, runs), data)),
            ),
        ):
            if table:
                parts.append(f"{title}, {kind}, dB of PSNR:\n\n{table}\n")
        parts.append(tables.compare_kinds(found, late))
    drawn = curve.make(runs, chosen)
    title = f"{drawn.data}, {drawn.images}, PSNR against the sigma of Gaussian noise"
    parts.append(f"{title}:\n\n{curve.tabulate(drawn)}\n")
    trained = {name: run for name, run in runs.items() if name not in noisy}
    table = selection.format_training(trained, chosen, [*networks.describe()])
    parts.append(f"All runs:\n\n{table}\n")
    return "\n".join(part for part in parts if part)


def write(folder: str | Path, document: str | Path | None = None) -> None:
    """Prints all tables of a folder of runs, draws, and fills in a document."""
    folder = Path(folder)
    if folder != RESULTS and not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r} of runs")
    runs = results.load(folder) if any(folder.glob("*.json")) else {}
    chosen = choose(runs)
    if chosen:
        curve.draw(curve.make(runs, chosen), folder / "figures")
    results.write_tables(format_study(runs), document)


def main(argv: list[str] | None = None) -> int:
    return results.run_report(argv, __doc__, RESULTS, write)


if __name__ == "__main__":
    sys.exit(main())
