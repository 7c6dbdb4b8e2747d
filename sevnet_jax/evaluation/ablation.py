"""Trained ablation runs in the layout of the paper's table, with differences to 1a."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from sevnet_jax.evaluation import paper
from sevnet_jax.evaluation.methods import Method
from sevnet_jax.evaluation.protocol import DESCRIPTION
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.models import ABLATIONS, SEVNet, create_model

OURS = "1a"
IN_DISTRIBUTION = "gaussian:20"
NOISES = (
    IN_DISTRIBUTION,
    "speckle:90",
    "poisson:6",
    "mixture",
    "variant1",
    "variant2",
    "variant3",
)
# A row this far below 1a in distribution is not trained to its end: what it scores out
# of distribution says little about its design.
CONVERGED_WITHIN = 0.3
DESIGN = ("normalization", "gate", "pre_normalization", "expansion")


@dataclasses.dataclass(frozen=True)
class Row:
    """The mean over the runs of one row; `spread` is their standard deviation."""

    name: str
    runs: tuple[str, ...]
    psnr: Mapping[str, float]
    ssim: Mapping[str, float]
    spread: Mapping[str, float]


def identify(model: SEVNet) -> str:
    """Returns the row that a model is, at whatever size, or "other"."""
    rows = {row: SEVNet(**changes) for row, changes in ABLATIONS.items()}
    rows["unet_relu"] = create_model("unet_relu")
    for row, known in rows.items():
        if all(getattr(model, field) == getattr(known, field) for field in DESIGN):
            return row
    return "other"


def collect(
    methods: Sequence[Method], means: Mapping[tuple[str, str, str], Mapping[str, Any]]
) -> list[Row]:
    """Returns the rows that were run, in the paper's order.

    `means` are of one set: (set, method, noise) -> mean scores.
    """
    groups: dict[str, list[str]] = {}
    for method in methods:
        groups.setdefault(identify(method.denoiser.weights.model), []).append(
            method.name
        )
    order = [*ABLATIONS, "unet_relu", "other"]
    rows = []
    for name in sorted(groups, key=order.index):
        runs = groups[name]
        scores = {
            noise: [mean for (_, method, n), mean in means.items()
                    if n == noise and method in runs]
            for noise in dict.fromkeys(key[2] for key in means)
        }  # fmt: skip
        psnr = {noise: [m["psnr"] for m in found] for noise, found in scores.items()}
        rows.append(
            Row(
                name,
                tuple(runs),
                {noise: statistics.fmean(values) for noise, values in psnr.items()},
                {n: statistics.fmean(m["ssim"] for m in f) for n, f in scores.items()},
                {
                    noise: statistics.stdev(values) if len(values) > 1 else 0.0
                    for noise, values in psnr.items()
                },
            )
        )
    return rows


def format_text(rows: Sequence[Row], data: str) -> str:
    """Returns scores, then differences to row 1a beside the paper's."""
    noises = list(rows[0].psnr)
    scores = [
        [
            _label(row),
            *(f"{row.psnr[n]:.2f} / {row.ssim[n]:.4f}" for n in noises),
        ]
        for row in rows
    ]
    parts = [
        f"{data}, PSNR / SSIM, {DESCRIPTION}",
        format_table(["row", *noises], scores),
    ]
    ours = next((row for row in rows if row.name == OURS), None)
    if ours is None:
        return (
            "\n".join([*parts, "", f"No run is of row {OURS}: no differences."]) + "\n"
        )
    parts += ["", f"Difference to {OURS} in dB, here (in the paper):"]
    differences = [
        [_label(row), *(_difference(row, ours, noise) for noise in noises)]
        for row in rows
        if row is not ours
    ]
    parts.append(format_table(["row", *noises], differences))
    late = [row.name for row in rows if not is_converged(row, ours)]
    if late:
        parts.append(
            f"Not within {CONVERGED_WITHIN} dB of {OURS} at {IN_DISTRIBUTION}, so of "
            f"little weight: {', '.join(late)}"
        )
    return "\n".join(parts) + "\n"


def is_converged(row: Row, ours: Row) -> bool:
    """Whether a row is as good as 1a in distribution; True if that was not scored."""
    if IN_DISTRIBUTION not in row.psnr:
        return True
    below = ours.psnr[IN_DISTRIBUTION] - row.psnr[IN_DISTRIBUTION]
    return below <= CONVERGED_WITHIN  # NaN is not


def _difference(row: Row, ours: Row, noise: str) -> str:
    text = f"{row.psnr[noise] - ours.psnr[noise]:+.2f}"
    theirs = paper.ablation()
    if noise in theirs.get(row.name, {}):
        gap = theirs[row.name][noise].psnr - theirs[OURS][noise].psnr
        return f"{text} ({gap:+.2f})"
    return text


def _label(row: Row) -> str:
    if len(row.runs) == 1:
        return row.name
    widest = max(row.spread.values())
    return f"{row.name}, {len(row.runs)} runs, +- {widest:.2f} dB"
