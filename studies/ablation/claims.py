"""The paper's claims about its ablation, tested on trained rows and their spread."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from studies.ablation import scores
from studies.ablation.rows import BROKEN, OURS, REFERENCE
from studies.chance import Difference, find_margin, format_gap
from studies.means import BEYOND, IN_DISTRIBUTION, OOD, PAPER_MEAN, VARYING
from studies.results import Row

CLOSE = 0.2  # dB; the paper's rows that "maintain comparable generalization" lose 0.1


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
    Claim("... but only by a little", "2c", close=True),
    Claim("layer norm is worse, even with IGM", "2d"),
    Claim("with layer norm, ReLU is worse than IGM", "2e", "2d"),
    Claim("with layer norm, GELU is worse than IGM", "2f", "2d"),
    Claim("layer norm and ReLU together are worse", "2e"),
    Claim("layer norm and GELU together are worse", "2f"),
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
    Claim("(added here) layer norm before the block is worse", "pre_ln"),
    Claim("(added here) the wrapper helps layer norm and GELU", "2f", "2f_wrapped"),
    Claim("(added here) it does not make up for homogeneity", "2f_wrapped"),
    Claim("(added here) nor where levels vary", "2f_wrapped", over=VARYING),
)


def judge(
    found: Sequence[Row],
    late: Sequence[str],
    diverged: Sequence[str],
    controls: Mapping[str, str],
    data: str,
) -> tuple[list[str], list[list[str]]]:
    """Returns header and cells: each claim, what came out, and whether it held.

    `late` are rows that did not converge in distribution, `diverged` those none of
    whose trainings came to an end; `controls` names 1a trained as long as a row.
    """
    rows = {row.name: row for row in found}
    cells = []
    for claim in add_controls(controls):
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


def add_controls(controls: Mapping[str, str]) -> list[Claim]:
    """Returns all claims, each that a row is worse than 1a also for equal training."""
    claims = []
    for claim in CLAIMS:
        claims.append(claim)
        if claim.better == OURS and not claim.close and claim.worse in controls:
            text = f"... not because {claim.worse} is trained longer"
            control = controls[claim.worse]
            claims.append(dataclasses.replace(claim, text=text, better=control))
    return claims


def _compare(
    rows: Mapping[str, Row], claim: Claim, late: Sequence[str], data: str
) -> list[str]:
    worse, better = rows[claim.worse], rows[claim.better]
    over = claim.over.removesuffix(BEYOND)
    reference = [
        name
        for name, row in rows.items()
        if name in REFERENCE and name not in late and math.isfinite(row.psnr[over])
    ]

    def measure(over: str) -> Difference:
        margin = find_margin(rows, reference, (worse.name, better.name), over, OURS)
        return Difference(worse.psnr[over] - better.psnr[over], margin)

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
        if worse.name in BROKEN and len(worse.runs) == 1 and "told" not in verdict:
            verdict += ", in one training"
    note = "" if over == OOD else f" ({over})"
    return [
        format_gap(worse.psnr[IN_DISTRIBUTION] - better.psnr[IN_DISTRIBUTION]),
        f"{plain}{note}",
        f"{beyond}{note}",
        format_gap(worse.psnr[PAPER_MEAN] - better.psnr[PAPER_MEAN])
        + _find_papers(claim, data),
        verdict,
    ]


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
    theirs = scores.find_papers(data)
    if claim.worse not in theirs or claim.better not in theirs:
        return ""
    worse, better = theirs[claim.worse], theirs[claim.better]
    return f" ({np.mean([worse[n].psnr - better[n].psnr for n in better]):+.2f})"
