"""Which runs count, which are behind, and how long the reference is trained."""

import itertools
from collections.abc import Collection, Mapping, Sequence

from sevnet_jax.evaluation.report import format_markdown
from studies import results
from studies.means import OOD
from studies.results import Run, is_close


def find_last(stages: Sequence[Run]) -> Run | None:
    """Returns the last of some stages that did not diverge."""
    return next((r for r in reversed(stages) if r["held_out"] is not None), None)


def find_best(stages: Sequence[Run]) -> Run | None:
    """Returns the best of some stages on held-out photos; None: all diverged."""
    ended = [run for run in stages if run["held_out"] is not None]
    return max(ended, key=lambda run: run["held_out"], default=None)


def choose(
    runs: Mapping[str, Run], ours: str, smaller: Collection[str] = ()
) -> dict[str, Run]:
    """Returns the runs that count: of each row and seed the best on held-out photos.

    Of the reference, `ours`, the first stage: the others are rows of their own, as
    controls, or rows that came early would be held against a longer training. A seed
    that stays late is left out if another of its row does not; rows that are `smaller`
    may be late.
    """
    best: dict[tuple[str, int], str] = {}
    for name, run in runs.items():
        if not run["means"]:
            continue
        key = (name_row(run, ours), run["seed"])
        if key not in best or run["held_out"] > runs[best[key]]["held_out"]:
            best[key] = name
    found = {name: {**runs[name], "row": row} for (row, _), name in best.items()}
    late = {name for name, run in found.items() if is_late(run, found, ours, smaller)}
    on_time = {run["row"] for name, run in found.items() if name not in late}
    return {
        name: run
        for name, run in found.items()
        if run["row"] not in on_time or name not in late
    }


def name_row(run: Run, ours: str) -> str:
    """Returns the row that a run stands for: each control for itself."""
    control = run["row"] == ours and run["stage"] > 0
    return name_control(ours, run["stage"]) if control else run["row"]


def name_control(ours: str, stage: int) -> str:
    """Returns the row that the reference is after a later stage."""
    return f"{ours}_stage{stage}"


def is_late(
    run: Run, chosen: Mapping[str, Run], ours: str, smaller: Collection[str] = ()
) -> bool:
    """Whether a run is behind the reference of its seed in distribution."""
    wanted = {r["seed"]: r["held_out"] for r in chosen.values() if r["row"] == ours}
    if not wanted or run["row"] in smaller:
        return False
    return not is_close(run["held_out"], wanted.get(run["seed"], wanted.get(0)))


def list_late(
    chosen: Mapping[str, Run], ours: str, smaller: Collection[str] = ()
) -> set[str]:
    """Returns the rows that never came close to the reference in distribution."""
    return {
        run["row"] for run in chosen.values() if is_late(run, chosen, ours, smaller)
    }


def count_stages(steps: int) -> int:
    """Returns how many stages have at least so many steps in all."""
    totals = itertools.accumulate(stage.steps for stage in results.STAGES)
    return 1 + sum(total < steps for total in totals)


def find_controls(chosen: Mapping[str, Run], ours: str) -> dict[str, str]:
    """Returns, for rows that needed more than one stage, the reference after as much.

    By steps and not by stages: those that diverged gave none.
    """
    steps: dict[str, int] = {}
    for run in chosen.values():
        steps[run["row"]] = max(run["steps"], steps.get(run["row"], 0))
    return {
        row: name_control(ours, count_stages(count) - 1)
        for row, count in steps.items()
        if count_stages(count) > 1 and not row.startswith(ours)
    }


def format_training(
    runs: Mapping[str, Run], chosen: Mapping[str, Run], order: Sequence[str]
) -> str:
    """Returns how each run was trained, how far it came, and its means if scored."""
    sets = results.find_sets(runs)

    def mean(run: Run, data: str) -> str:
        if not run["means"]:
            return "-"
        (row,) = results.collect_runs({"": run}, data, order)
        return results.format_psnr(row.psnr[OOD])

    cells = [
        [
            run["row"],
            str(run["seed"]),
            f"{run['learning_rate']:g}",
            str(run["steps"]),
            _describe_end(run),
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


def _describe_end(run: Run) -> str:
    if run["held_out"] is not None:
        return f"{run['held_out']:.2f}"
    after = run.get("diverged_after")
    return f"diverged after {after}" if after else "not finite"
