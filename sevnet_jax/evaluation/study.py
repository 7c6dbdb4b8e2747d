"""The trained ablation, from the files that its runs left: rows, claims, tables.

benchmarks/ablations.py writes a file for each run; what is said of them is made here.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax.evaluation import ablation, paper
from sevnet_jax.evaluation.ablation import CONVERGED_WITHIN, OURS, Row
from sevnet_jax.evaluation.protocol import DESCRIPTION, count_images
from sevnet_jax.evaluation.report import format_markdown

OOD = "mean of 16"  # noises: all but that of training
BEGIN, END = "<!-- eval.py study: begin -->", "<!-- eval.py study: end -->"
FIRM = 2  # spreads of a seed that a difference must exceed


@dataclasses.dataclass(frozen=True)
class Trial:
    """How a row is trained."""

    learning_rate: float
    steps: int

    @property
    def suffix(self) -> str:
        """Behind the name of a run; nothing for the first trial."""
        if self == TRIALS[0]:
            return ""
        return f"_lr{self.learning_rate:g}_{self.steps}"


# One after the other, until a row is as good as 1a in distribution; the same for all.
TRIALS = (Trial(1.5e-3, 6000), Trial(5e-4, 6000), Trial(1.5e-3, 12000))


@dataclasses.dataclass(frozen=True)
class Claim:
    """What the paper says of a row: it is worse than another, out of distribution."""

    text: str
    worse: str
    better: str = OURS


CLAIMS = (
    Claim("HNM helps: scaling alone loses", "1b"),
    Claim("HNM helps: half of it loses", "1c"),
    Claim("its affine must see the scale", "1h"),
    Claim("IGM helps: without it", "2a"),
    Claim("IGM helps: ReLU in its place", "2b"),
    Claim("single scaling loses a little", "2c"),
    Claim("layer norm loses, even with IGM", "2d"),
    Claim("layer norm and ReLU lose most", "2e"),
    Claim("layer norm and GELU lose more than with IGM", "2f", "2d"),
    Claim("without HNM, ELU loses much", "1f", "1d"),
    Claim("without HNM, GELU loses much", "1g", "1e"),
    Claim("a usual ReLU network is behind", "unet_relu"),
    Claim("layer norm before the block loses", "pre_ln"),
    Claim("(ours) a global wrapper does not replace it", "2f_wrapped"),
    Claim("(ours) it helps a network that breaks the law", "2f", "2f_wrapped"),
)


def is_close(score: float | None, wanted: float) -> bool:
    """Whether a row is as good as 1a in distribution; None: its training diverged."""
    return score is not None and score >= wanted - CONVERGED_WITHIN


def load(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Returns the runs that count, by name: of each row and seed the best trial.

    The best is that of the highest score on held-out photos.
    """
    paths = sorted(Path(folder).glob("*.json"))
    if not paths:
        raise ValueError(f"no results of runs, *.json, in {str(folder)!r}")
    best: dict[tuple[str, int], tuple[str, dict]] = {}
    for path in paths:
        try:
            run = json.loads(path.read_text())
            key, score = (run["row"], run["seed"]), run["held_out"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} holds no run: {error!r}") from None
        if key not in best or (score or 0) > (best[key][1]["held_out"] or 0):
            best[key] = (path.stem, run)
    return dict(best.values())


def find_sets(runs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Returns the sets that runs were scored on, and how many images they have."""
    return {
        data: max(mean["images"] for mean in means.values())
        for run in runs.values()
        for data, means in run["means"].items()
    }


def collect(runs: Mapping[str, Mapping[str, Any]], data: str) -> list[Row]:
    """Returns the rows of one set, with the mean out of distribution."""
    means = {}
    for name, run in runs.items():
        scored = run["means"].get(data, {})
        cells = {noise: _to_floats(mean) for noise, mean in scored.items()}
        outside = [c for noise, c in cells.items() if noise != ablation.IN_DISTRIBUTION]
        if outside:
            cells[OOD] = {
                metric: float(np.mean([cell[metric] for cell in outside]))
                for metric in ("psnr", "ssim")
            }
        means |= {(data, name, noise): cell for noise, cell in cells.items()}
    rows = {name: run["row"] for name, run in runs.items() if data in run["means"]}
    return ablation.collect(rows, means)


def _to_floats(mean: Mapping[str, Any]) -> dict[str, float]:
    return {m: math.nan if mean[m] is None else mean[m] for m in ("psnr", "ssim")}


def find_spread(rows: Sequence[Row], noise: str = OOD) -> float:
    """Returns the standard deviation between seeds, pooled over the repeated rows."""
    repeated = [row.spread[noise] for row in rows if len(row.runs) > 1]
    return float(np.sqrt(np.mean(np.square(repeated)))) if repeated else math.nan


def judge(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells: each claim, what came out, and whether it held."""
    found = {row.name: row for row in rows}
    spread = find_spread(rows)
    cells = []
    for claim in CLAIMS:
        if claim.worse not in found or claim.better not in found:
            continue
        worse, better = found[claim.worse], found[claim.better]
        gap = worse.psnr[OOD] - better.psnr[OOD]
        counts = all(ablation.is_converged(row, found[OURS]) for row in (worse, better))
        cells.append(
            [
                claim.text,
                f"{claim.worse} - {claim.better}",
                f"{gap:+.2f}" if math.isfinite(gap) else "not finite",
                _paper_gap(claim),
                _verdict(gap, spread) if counts else "not converged: says nothing",
            ]
        )
    return ["claim", "rows", f"{OOD}, dB", "paper, mean of 6", "held here"], cells


def _verdict(gap: float, spread: float) -> str:
    if not math.isfinite(gap):
        return "yes, it collapsed"
    if math.isnan(spread):
        return "one seed only"
    if abs(gap) <= FIRM * spread:
        return "cannot be told"
    return "yes" if gap < 0 else "no, the opposite"


def _paper_gap(claim: Claim) -> str:
    theirs = paper.ablation()
    if claim.worse not in theirs or claim.better not in theirs:
        return "-"
    worse, better = theirs[claim.worse], theirs[claim.better]
    return f"{np.mean([worse[n].psnr - better[n].psnr for n in better]):+.2f}"


def format_training(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns how each run was trained, and how far it came on held-out photos."""
    order = list(ablation.DESCRIPTIONS)
    cells = [
        [
            run["row"],
            str(run["seed"]),
            f"{run['learning_rate']:g}",
            str(run["steps"]),
            "diverged" if run["held_out"] is None else f"{run['held_out']:.2f}",
        ]
        for run in sorted(
            runs.values(), key=lambda run: (order.index(run["row"]), run["seed"])
        )
    ]
    header = ["row", "seed", "learning rate", "steps", "held-out photos, dB"]
    return format_markdown(header, cells)


def format_study(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns all tables in Markdown."""
    parts = []
    for data, images in find_sets(runs).items():
        rows = collect(runs, data)
        shown = [*ablation.NOISES, OOD]
        rows = [dataclasses.replace(row, **_only(row, shown)) for row in rows]
        count = count_images(images, images)
        parts.append(
            ablation.format_rows(
                rows, data, count, lambda *table: "\n" + format_markdown(*table)
            )
        )
        if any(row.name == OURS for row in rows):
            spread = find_spread(rows)
            parts.append(
                f"The claims on {data}, {DESCRIPTION}; between seeds {OOD} has a "
                f"standard deviation of {spread:.2f} dB:\n\n"
                f"{format_markdown(*judge(rows))}\n"
            )
    parts.append(f"How each run was trained:\n\n{format_training(runs)}\n")
    return "\n".join(parts)


def _only(row: Row, noises: Sequence[str]) -> dict[str, dict[str, float]]:
    return {
        field: {n: getattr(row, field)[n] for n in noises if n in getattr(row, field)}
        for field in ("psnr", "ssim", "spread")
    }


def replace_block(document: str, tables: str) -> str:
    """Returns a document with the tables between its two marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"
