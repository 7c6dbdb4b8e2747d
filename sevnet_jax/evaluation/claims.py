"""What the paper claims of its ablation, held against trained rows and their spread."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import scipy.stats

from sevnet_jax.evaluation import ablation
from sevnet_jax.evaluation.ablation import IN_DISTRIBUTION, OURS, Row

OOD = "mean of 16"  # noises: all but that of training
VARYING = "mean of 6 variants"  # whose level varies most over the image
PAPER_MEAN = "mean of the paper's 6"
BEYOND = f" - {IN_DISTRIBUTION}"  # behind a mean: what is lost out of distribution
CONFIDENCE = 0.95
CLOSE = 0.2  # dB; the paper's rows that "maintain comparable generalization" lose 0.1
# Two kinds of rows, whose seeds tell their spread: networks that keep the law, by their
# blocks or by a wrapper, and the others.
KEEP_THE_LAW = (
    *("1a", "1b", "1c", "2a", "2b", "2c", "unet_relu", "1a_wrapped", "2f_wrapped"),
    *("1a_narrow", "1a_stage1", "1a_stage2", "1a_stage3"),
)


@dataclasses.dataclass(frozen=True)
class Claim:
    """One row is worse than another, or hardly, in a mean over noises."""

    text: str
    worse: str
    better: str = OURS
    close: bool = False
    over: str = OOD


CLAIMS = (
    Claim("HNM helps: constant scaling alone is worse", "1b"),
    Claim("HNM helps: constant scaling of one half is worse", "1c"),
    Claim("an affine that does not see the scale is worse", "1h"),
    Claim("with HNM, ELU is close", "1d", close=True),
    Claim("with HNM, GELU is close", "1e", close=True),
    Claim("without HNM, ELU is worse", "1f"),
    Claim("without HNM, GELU is worse", "1g"),
    Claim("HNM helps ELU", "1f", "1d"),
    Claim("HNM helps GELU", "1g", "1e"),
    Claim("IGM helps: nothing in its place is worse", "2a"),
    Claim("IGM helps: ReLU in its place is worse", "2b"),
    Claim("a single scaling is worse", "2c"),
    Claim("layer norm is worse, even with IGM", "2d"),
    Claim("with layer norm, ReLU is worse than IGM", "2e", "2d"),
    Claim("with layer norm, GELU is worse than IGM", "2f", "2d"),
    Claim("layer norm and ReLU together are worse", "2e"),
    Claim("layer norm and GELU together are worse", "2f"),
    Claim("... not because 2e is trained longer", "2e", "1a_stage1"),
    Claim("... not because 2f is trained longer", "2f", "1a_stage2"),
    Claim("second order collapses", "unscaled"),
    Claim("plain homogeneous blocks, ReLU and no more, are worse", "unet_relu"),
    Claim("plain and homogeneous beats layer norm and ReLU", "2e", "unet_relu"),
    Claim("plain and homogeneous beats layer norm and GELU", "2f", "unet_relu"),
    Claim(
        "not size: half as wide, no more is lost", "1a_narrow", OURS, True, OOD + BEYOND
    ),
    Claim(
        "not size: LN and ReLU, twice as wide, lose more",
        "2e",
        "1a_narrow",
        over=OOD + BEYOND,
    ),
    Claim(
        "not size: LN and GELU, twice as wide, lose more",
        "2f",
        "1a_narrow",
        over=OOD + BEYOND,
    ),
    Claim("(ours) layer norm before the block is worse", "pre_ln"),
    Claim("(ours) the wrapper helps layer norm and GELU", "2f", "2f_wrapped"),
    Claim("(ours) it does not make up for homogeneity", "2f_wrapped"),
    Claim("(ours) nor where levels vary", "2f_wrapped", over=VARYING),
)


def add_means(cells: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Returns {noise: scores} with the means over groups of noises, and BEYOND them."""
    theirs = [noise for noise in ablation.NOISES if noise != IN_DISTRIBUTION]
    groups = {
        OOD: [noise for noise in cells if noise != IN_DISTRIBUTION],
        VARYING: [noise for noise in cells if noise.startswith("variant")],
        PAPER_MEAN: theirs,
    }
    means = {
        name: {
            metric: float(np.mean([cells[noise][metric] for noise in noises]))
            for metric in ("psnr", "ssim")
        }
        for name, noises in groups.items()
        if noises and all(noise in cells for noise in noises)
    }
    inside = cells.get(IN_DISTRIBUTION)
    beyond = {
        name + BEYOND: {metric: mean[metric] - inside[metric] for metric in mean}
        for name, mean in means.items()
        if inside
    }
    return {**cells, **means, **beyond}


def find_margin(rows: Mapping[str, Row], worse: str, better: str, over: str) -> float:
    """Returns how large a difference must be to be no accident of the seeds.

    Student's t for two means, each with the spread of its kind, pooled over rows of
    that kind that were repeated; two kinds have Satterthwaite's degrees of freedom.
    """
    variances: dict[bool, float] = {}
    freedoms: dict[bool, int] = {}
    for row in (rows[worse], rows[better]):
        kind = row.name in KEEP_THE_LAW
        variance, freedoms[kind] = _pool(rows.values(), kind, over)
        variances[kind] = variances.get(kind, 0) + variance / len(row.runs)
    if not all(freedoms.values()):
        return math.nan
    variance = math.fsum(variances.values())
    parts = [variances[kind] ** 2 / freedoms[kind] for kind in variances]
    freedom = variance**2 / math.fsum(parts) if variance else 1
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    return float(quantile * math.sqrt(variance))


def _pool(rows: Iterable[Row], kind: bool, over: str) -> tuple[float, int]:
    """Returns the variance of a kind's seeds, and its degrees of freedom."""
    repeated = [
        (len(row.runs) - 1, row.spread[over])
        for row in rows
        if (row.name in KEEP_THE_LAW) == kind and math.isfinite(row.spread[over])
    ]
    freedom = sum(count for count, _ in repeated)
    squares = math.fsum(count * spread**2 for count, spread in repeated)
    return squares / max(freedom, 1), freedom


def judge(
    found: Sequence[Row], late: Sequence[str], diverged: Sequence[str], data: str
) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells: each claim, what came out, and whether it held.

    `late` are rows that did not converge in distribution, `diverged` those none of
    whose trainings came to an end.
    """
    rows = {row.name: row for row in found}
    cells = []
    for claim in CLAIMS:
        pair = (claim.worse, claim.better)
        if not all(name in rows or name in diverged for name in pair):
            continue
        about = [claim.text, f"{claim.worse} - {claim.better}"]
        lost = [name for name in pair if name in diverged]
        if lost:
            verdict = f"{' and '.join(lost)} diverged: says nothing"
            if lost == [claim.worse]:
                verdict = "no" if claim.close else "yes"
                verdict += ", its training diverged"
            cells.append([*about, *["-"] * 4, verdict])
        else:
            cells.append([*about, *_compare(rows, claim, late, data)])
    header = ["claim", "rows", IN_DISTRIBUTION, OOD, OOD + BEYOND]
    return [*header, f"{PAPER_MEAN} (in it)", "held here"], cells


def _compare(
    rows: Mapping[str, Row], claim: Claim, late: Sequence[str], data: str
) -> list[str]:
    worse, better = rows[claim.worse], rows[claim.better]

    def measure(over: str) -> Difference:
        margin = find_margin(rows, claim.worse, claim.better, over)
        return Difference(worse.psnr[over] - better.psnr[over], margin)

    over = claim.over.removesuffix(BEYOND)
    plain, beyond = measure(over), measure(over + BEYOND)
    behind = [row.name for row in (worse, better) if row.name in late]
    if not math.isfinite(better.psnr[over]):
        verdict = f"{better.name} collapsed: says nothing"
    elif not math.isfinite(worse.psnr[over]):
        verdict = "no, it collapsed" if claim.close else "yes, it collapsed"
    elif behind:
        verdict = f"{' and '.join(behind)} not converged: says nothing"
    else:
        judged = plain if over == claim.over else beyond
        verdict = decide(claim.close, judged, beyond)
    note = "" if over == OOD else f" ({over})"
    return [
        _format(worse.psnr[IN_DISTRIBUTION] - better.psnr[IN_DISTRIBUTION]),
        f"{plain}{note}",
        f"{beyond}{note}",
        _format(worse.psnr[PAPER_MEAN] - better.psnr[PAPER_MEAN])
        + _find_papers(claim, data),
        verdict,
    ]


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
        return _format(self.value) + margin


def decide(close: bool, found: Difference, beyond: Difference) -> str:
    """Returns whether it is so that a row is worse, or if `close` hardly worse."""
    if math.isnan(found.margin):
        return "one seed only: cannot be told"
    if close:
        if found.value - found.margin >= -CLOSE:
            return "yes"
        far = found.value + found.margin < -CLOSE
        return f"no, more than {CLOSE} dB worse" if far else "cannot be told"
    if found.value > found.margin:
        return "no, the opposite"
    if found.is_less:
        perhaps = "yes, but perhaps no more than in distribution"
        return "yes" if beyond.is_less else perhaps
    perhaps = "only relative to its score in distribution"
    return perhaps if beyond.is_less else "cannot be told"


def _find_papers(claim: Claim, data: str) -> str:
    theirs = ablation.find_papers(data)
    if claim.worse not in theirs or claim.better not in theirs:
        return ""
    worse, better = theirs[claim.worse], theirs[claim.better]
    return f" ({np.mean([worse[n].psnr - better[n].psnr for n in better]):+.2f})"


def _format(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "-"
