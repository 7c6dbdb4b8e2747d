"""Tables of the trained ablation, from the result files that run.py wrote.

python -m studies.ablation.report --write studies/ablation/README.md
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sevnet_jax.evaluation.protocol import count_images
from sevnet_jax.evaluation.report import format_markdown
from studies import chance, results, selection
from studies.ablation import claims, figures, rows, scores
from studies.ablation.rows import OURS
from studies.means import NOISES, OOD
from studies.results import Row, Run

RESULTS = Path(__file__).parent / "results"
SMALLER = ("1a_narrow",)
SHOWN = (*NOISES, OOD)


def choose(runs: Mapping[str, Run]) -> dict[str, Run]:
    """Returns the runs that count."""
    return selection.choose(runs, OURS, SMALLER)


def collect(runs: Mapping[str, Run], data: str) -> list[Row]:
    """Returns the rows of one set, with the means out of distribution."""
    return results.collect_runs(runs, data, [*rows.DESCRIPTIONS])


def format_study(runs: Mapping[str, Run]) -> str:
    """Returns all tables in Markdown."""
    chosen = choose(runs)
    diverged = find_diverged(runs)
    controls = selection.find_controls(chosen, OURS)
    late = selection.list_late(chosen, OURS, SMALLER)
    late = sorted(late, key=[*rows.DESCRIPTIONS].index)
    parts = []
    for data, images in results.find_sets(chosen).items():
        found = collect(chosen, data)
        parts.append(
            scores.format_rows(
                [row.cut(SHOWN) for row in found],
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
            parts.append(compare_kinds(found, late))
    table = selection.format_training(runs, chosen, [*rows.DESCRIPTIONS])
    parts.append(f"All runs:\n\n{table}\n")
    return "\n".join(parts)


def compare_kinds(found: Sequence[Row], late: Sequence[str]) -> str:
    """Returns how rows that break the law compare with those that keep it."""
    kinds = (
        [row for row in found if row.name in kind and row.name not in late]
        for kind in (rows.BROKEN, rows.HOMOGENEOUS)
    )
    return chance.compare_kinds(*kinds)


def find_diverged(runs: Mapping[str, Run]) -> list[str]:
    """Returns the rows that diverged in every stage, whatever the seed."""
    ended: dict[str, dict[int, list[bool]]] = {}
    for run in runs.values():
        seeds = ended.setdefault(run["row"], {})
        seeds.setdefault(run["seed"], []).append(run["held_out"] is not None)
    return [
        row
        for row, seeds in ended.items()
        if all(not any(s) and len(s) >= len(results.STAGES) for s in seeds.values())
    ]


def write(runs: str | Path, document: str | Path | None = None) -> None:
    """Prints all tables of a folder of runs, and puts them into a document."""
    tables = format_study(results.load(runs)) + figures.format_figures(runs)
    results.write_tables(tables, document)


def main(argv: list[str] | None = None) -> int:
    return results.run_report(argv, __doc__, RESULTS, write)


if __name__ == "__main__":
    sys.exit(main())
