"""Trained ablation runs in the layout of the paper's table, with differences to 1a."""

import math
from collections.abc import Callable, Mapping, Sequence

from sevnet_jax.evaluation import paper, report
from sevnet_jax.evaluation.methods import Method
from sevnet_jax.evaluation.protocol import DESCRIPTION
from sevnet_jax.evaluation.tables import Means
from studies import results
from studies.ablation.rows import DESCRIPTIONS, OURS, identify
from studies.means import IN_DISTRIBUTION
from studies.results import CONVERGED_WITHIN, Row, is_close

PAPER_SET = "Kodak24"


def find_rows(methods: Sequence[Method]) -> dict[str, str]:
    """Returns the row of each method; those of a row must be of one size."""
    first: dict[str, Method] = {}
    rows = {}
    for method in methods:
        model = method.denoiser.weights.model
        rows[method.name] = row = identify(model)
        other = first.setdefault(row, method)
        if other.denoiser.weights.model != model:
            raise ValueError(
                f"{other.name} and {method.name} are the same row in different sizes; "
                "give runs of one size"
            )
    return rows


def collect(rows: Mapping[str, str], means: Means) -> list[Row]:
    """Returns the rows that were run, in the paper's order."""
    return results.collect(rows, means, [*DESCRIPTIONS, "other"])


def tabulate(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells: PSNR / SSIM of every row."""
    noises = list(rows[0].psnr)
    cells = [
        [row.label(label(row.name)), *(row.score(n) for n in noises)] for row in rows
    ]
    return ["row", *noises], cells


def find_papers(data: str) -> dict[str, dict[str, paper.Cell]]:
    """Returns the paper's rows, if these are its images."""
    return paper.ablation() if data.casefold() == PAPER_SET.casefold() else {}


def tabulate_differences(
    rows: Sequence[Row], data: str
) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells: each row minus 1a, in dB, and the paper's behind it."""
    noises = list(rows[0].psnr)
    (ours,) = (row for row in rows if row.name == OURS)
    theirs = find_papers(data)

    def cell(row, noise):
        gap = row.psnr[noise] - ours.psnr[noise]
        text = f"{gap:+.2f}" if math.isfinite(gap) else "not finite"
        if noise not in theirs.get(row.name, {}):
            return text
        paper_gap = theirs[row.name][noise].psnr - theirs[OURS][noise].psnr
        return f"{text} ({paper_gap:+.2f})"

    cells = [
        [row.label(label(row.name)), *(cell(row, noise) for noise in noises)]
        for row in rows
        if row is not ours
    ]
    return ["row", *noises], cells


def format_rows(
    rows: Sequence[Row],
    data: str,
    images: str,
    format_one: Callable[..., str],
    late: Sequence[str] | None = None,
    mark: str = "",
) -> str:
    """Returns scores, then differences to 1a, as `format_one(header, cells)` has it.

    `late` are rows known not to have converged; if not given, these scores tell. Lines
    around the tables begin with `mark`.
    """
    parts = [
        f"{mark}{data}, {images}, PSNR / SSIM, {DESCRIPTION}",
        format_one(*tabulate(rows)),
        "",
    ]
    names = [row.name for row in rows]
    if OURS not in names:
        missing = f"{mark}No run is of row {OURS}: no differences."
        return "\n".join([*parts, missing]) + "\n"
    if len(rows) > 1:
        parts += [
            f"{mark}Difference to {OURS} in dB (in the paper):",
            format_one(*tabulate_differences(rows, data)),
            "",
        ]
    if late is None:
        ours = rows[names.index(OURS)]
        late = [row.name for row in rows if not is_converged(row, ours)]
    if late:
        parts.append(
            f"{mark}Not within {CONVERGED_WITHIN} dB of {OURS} at {IN_DISTRIBUTION}, "
            f"so of little weight: {', '.join(late)}"
        )
    return "\n".join(parts).rstrip() + "\n"


def format_latex(rows: Sequence[Row], data: str, images: str) -> str:
    """Returns the same as booktabs tables."""

    def format_one(header, cells):
        lines = [[*map(report.escape_latex, line)] for line in (header, *cells)]
        return report.format_latex(lines[0], lines[1:])

    text = format_rows(rows, data, images, format_one, mark="% ")
    return "% needs \\usepackage{booktabs}\n" + text


def is_converged(row: Row, ours: Row) -> bool:
    """Whether a row is as good as 1a in distribution; True if that was not scored."""
    if IN_DISTRIBUTION not in row.psnr:
        return True
    return is_close(row.psnr[IN_DISTRIBUTION], ours.psnr[IN_DISTRIBUTION])


def label(name: str) -> str:
    """Returns a row's name and what it changes."""
    return f"{name} {DESCRIPTIONS.get(name, '')}".rstrip()
