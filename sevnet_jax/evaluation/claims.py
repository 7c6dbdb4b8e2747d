"""What the paper claims of its ablation, held against trained rows and their spread."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats

from sevnet_jax.evaluation import ablation, paper
from sevnet_jax.evaluation.ablation import IN_DISTRIBUTION, OURS, Row

OOD = "mean of 16"  # noises: all but that of training
VARYING = "mean of 6 variants"  # whose level varies most over the image
PAPER_MEAN = "mean of the paper's 6"
CONFIDENCE = 0.95
CLOSE = 0.2  # dB; the paper's rows that "maintain comparable generalization" lose 0.1
# Two kinds of rows, whose seeds tell their spread: networks that keep the law, by their
# blocks or by a wrapper, and the others.
KEEP_THE_LAW = (
    *("1a", "1b", "1c", "2a", "2b", "2c"),
    *("unet_relu", "1a_wrapped", "2f_wrapped", "1a_narrow"),
)


@dataclasses.dataclass(frozen=True)
class Claim:
    """One row is worse than another, or close to it, in a mean over noises."""

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
    Claim("without HNM, ELU is worse", "1f", "1d"),
    Claim("without HNM, GELU is worse", "1g", "1e"),
    Claim("IGM helps: nothing in its place is worse", "2a"),
    Claim("IGM helps: ReLU in its place is worse", "2b"),
    Claim("a single scaling is worse", "2c"),
    Claim("layer norm is worse, even with IGM", "2d"),
    Claim("with layer norm, ReLU is worse than IGM", "2e", "2d"),
    Claim("with layer norm, GELU is worse than IGM", "2f", "2d"),
    Claim("layer norm and ReLU together are worse", "2e"),
    Claim("layer norm and GELU together are worse", "2f"),
    Claim("second order collapses", "unscaled"),
    Claim("plain homogeneous blocks, ReLU and no more, are worse", "unet_relu"),
    Claim("plain and homogeneous beats layer norm and ReLU", "2e", "unet_relu"),
    Claim("plain and homogeneous beats layer norm and GELU", "2f", "unet_relu"),
    Claim("not size: four times as large, LN and GELU is worse", "2f", "1a_narrow"),
    Claim("(ours) layer norm before the block is worse", "pre_ln"),
    Claim("(ours) the wrapper helps layer norm and GELU", "2f", "2f_wrapped"),
    Claim("(ours) it does not make up for homogeneity", "2f_wrapped"),
    Claim("(ours) nor where levels vary", "2f_wrapped", over=VARYING),
    Claim("(ours) a homogeneous network needs no wrapper", "1a", "1a_wrapped", True),
)


def add_means(cells: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Returns {noise: scores} with the means over groups of noises."""
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
    return {**cells, **means}


def find_margin(rows: Mapping[str, Row], claim: Claim) -> float:
    """Returns how large a difference must be to be no accident of the seeds.

    Student's t for two means, with a spread pooled over the repeated rows of a kind:
    those that keep the law, or, if one of the two does not, those that do not.
    """
    pair = (rows[claim.worse], rows[claim.better])
    keep = all(row.name in KEEP_THE_LAW for row in pair)
    repeated = [
        row
        for row in rows.values()
        if len(row.runs) > 1
        and (row.name in KEEP_THE_LAW) == keep
        and math.isfinite(row.spread[claim.over])
    ]
    freedom = sum(len(row.runs) - 1 for row in repeated)
    if not freedom:
        return math.nan
    squares = [(len(row.runs) - 1) * row.spread[claim.over] ** 2 for row in repeated]
    spread = math.sqrt(math.fsum(squares) / freedom)
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    return float(quantile * spread * math.sqrt(sum(1 / len(row.runs) for row in pair)))


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
            cells.append([*about, "-", "-", "-", "-", verdict])
        else:
            cells.append([*about, *_compare(rows, claim, late, data)])
    header = ["claim", "rows", IN_DISTRIBUTION, OOD, f"{PAPER_MEAN} (in it)"]
    return [*header, "margin", "held here"], cells


def _compare(
    rows: Mapping[str, Row], claim: Claim, late: Sequence[str], data: str
) -> list[str]:
    def gap(noise: str) -> float:
        return rows[claim.worse].psnr[noise] - rows[claim.better].psnr[noise]

    margin = find_margin(rows, claim)
    behind = [name for name in (claim.worse, claim.better) if name in late]
    if not math.isfinite(rows[claim.better].psnr[claim.over]):
        verdict = f"{claim.better} collapsed: says nothing"
    elif not math.isfinite(rows[claim.worse].psnr[claim.over]):
        verdict = "no, it collapsed" if claim.close else "yes, it collapsed"
    elif behind:
        verdict = f"{' and '.join(behind)} not converged: says nothing"
    else:
        verdict = decide(claim, gap(claim.over), gap(IN_DISTRIBUTION), margin)
    over = "" if claim.over == OOD else f" ({gap(claim.over):+.2f} over {claim.over})"
    return [
        _format(gap(IN_DISTRIBUTION)),
        _format(gap(OOD)) + over,
        _format(gap(PAPER_MEAN)) + _find_papers(claim, data),
        _format(margin).lstrip("+"),
        verdict,
    ]


def decide(claim: Claim, gap: float, inside: float, margin: float) -> str:
    """Returns whether a claim held: gaps in dB, out of and in distribution."""
    if math.isnan(margin):
        return "one seed only: cannot be told"
    if claim.close:
        if abs(gap) + margin <= CLOSE:
            return "yes"
        far = abs(gap) - margin > CLOSE
        return f"no, not within {CLOSE} dB" if far else "cannot be told"
    if abs(gap) <= margin:
        return "cannot be told"
    if gap > 0:
        return "no, the opposite"
    return (
        "yes"
        if gap - inside < -margin
        else "yes, but perhaps no more than in distribution"
    )


def _find_papers(claim: Claim, data: str) -> str:
    theirs = paper.ablation()
    known = claim.worse in theirs and claim.better in theirs
    if not known or data.casefold() != ablation.PAPER_SET.casefold():
        return ""
    worse, better = theirs[claim.worse], theirs[claim.better]
    return f" ({np.mean([worse[n].psnr - better[n].psnr for n in better]):+.2f})"


def _format(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "-"
