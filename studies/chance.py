"""Which differences between trained rows are larger than chance makes them."""

import dataclasses
import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats

from studies.means import BEYOND, OOD
from studies.results import Row

CONFIDENCE = 0.95
COLUMNS = 120  # of Markdown


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference in dB, and how large it must be to be no accident."""

    value: float
    margin: float

    @property
    def is_less(self) -> bool:
        return self.value < -self.margin

    def __str__(self) -> str:
        margin = f" +- {self.margin:.2f}" if math.isfinite(self.margin) else ""
        return format_gap(self.value) + margin


def find_margin(
    rows: Mapping[str, Row],
    reference: Sequence[str],
    pair: Sequence[str],
    over: str,
    ours: str,
) -> float:
    """Returns how large a difference of two rows must be to be no accident.

    Student's t. A row is held against one of the reference by the spread of all its
    trainings, of other seeds and designs: could the row be one more of them? So is one
    held against `ours` of another width or length. Two rows of other kinds have only
    their own seeds.
    """
    known = any(name in reference or name.startswith(ours) for name in pair)
    groups = [reference] if known and reference else [[name] for name in pair]
    squares = freedom = 0.0
    for group in groups:
        found = [rows[name] for name in group]
        counts = [len(row.runs) for row in found]
        mean = np.average([row.psnr[over] for row in found], weights=counts)
        squares += sum(
            (count - 1) * row.spread[over] ** 2 + count * (row.psnr[over] - mean) ** 2
            for row, count in zip(found, counts, strict=True)
        )
        freedom += sum(counts) - 1
    if not freedom:
        return math.nan
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    runs = sum(1 / len(rows[name].runs) for name in pair)
    return float(quantile * math.sqrt(squares / freedom * runs))


def compare_kinds(broken: Sequence[Row], keep: Sequence[Row]) -> str:
    """Returns how rows that break the law compare with those that keep it."""
    if len(keep) < 2 or len(broken) < 2:
        return ""

    def rank(value: float) -> float:
        return value if math.isfinite(value) else -math.inf  # a collapsed one is last

    def test(metric: str, over: str) -> tuple[float, float]:
        kinds = [
            [rank(getattr(row, metric)[over]) for row in kind]
            for kind in (broken, keep)
        ]
        p = scipy.stats.mannwhitneyu(*kinds, method="exact").pvalue
        return float(np.median(kinds[0]) - np.median(kinds[1])), float(p)

    measures = [("psnr", OOD, ".2f", " dB"), ("psnr", OOD + BEYOND, ".2f", " dB")]
    measures.append(("ssim", OOD, ".4f", " of SSIM"))
    parts = []
    for metric, over, digits, unit in measures:
        gap, p = test(metric, over)
        parts.append(f"{gap:+{digits}}{unit} in the {over} (p = {p:.2g})")
    names = [", ".join(row.name for row in kind) for kind in (broken, keep)]
    text = (
        f"Rows that break the law ({names[0]}) minus those that keep it ({names[1]}), "
        f"medians: {', '.join(parts)}; Mann-Whitney's exact p, two-sided, one value a "
        "row."
    )
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False) + "\n"


def format_gap(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "-"
