"""Tables of the trained rivals: scores, differences to ours, effect of the wrapper."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import paper
from sevnet_jax.evaluation.report import format_markdown
from studies import chance, results
from studies.ablation.rows import WRAPPED
from studies.means import BEYOND, IN_DISTRIBUTION, NOISES, OOD
from studies.results import CONVERGED_WITHIN, Row, Run
from studies.rivals import networks
from studies.rivals.networks import BASELINE, ONLY, OURS, PAPER

OVER = (IN_DISTRIBUTION, OOD, OOD + BEYOND)


def describe_data(chosen: Mapping[str, Run]) -> str:
    """Returns what photos the runs were trained on and chosen by."""
    used: dict[tuple[str, str], list[str]] = {}
    for run in chosen.values():
        recipe = results.find_recipe(run)
        key = (recipe["data.source"], recipe["watch.source"])
        used.setdefault(key, []).append(run["row"])
    lines = [
        f"Trained on {photos}, chosen by {held_out}: "
        + ("all runs." if len(used) == 1 else f"{', '.join(dict.fromkeys(rows))}.")
        for (photos, held_out), rows in used.items()
    ]
    return "\n".join(lines) + "\n"


def tabulate(rows: Sequence[Row]) -> str:
    """Returns the scores of every row."""
    names = networks.describe()
    shown = (*NOISES, OOD)
    cells = [
        [
            row.cut(shown).label(names[row.name]),
            networks.describe_law(row.name),
            *(row.score(noise) for noise in shown),
        ]
        for row in rows
    ]
    return format_markdown(["network", "keeps the law", *shown], cells)


def compare(
    found: Sequence[Row],
    late: Collection[str],
    controls: Mapping[str, str],
    data: str,
    keepers: Sequence[Row] = (),
) -> str:
    """Returns each row minus ours, and the paper's difference beside it.

    `controls` names, for rows that were trained longer, ours trained for as long.
    `keepers` are rows of the ablation: they tell what chance does, as our two do.
    """
    names = networks.describe()
    rows = {row.name: row for row in found}
    reference = [name for name in (OURS, BASELINE) if name in rows and name not in late]
    reference += [row.name for row in keepers]
    known = {**rows, **{row.name: row for row in keepers}}

    def subtract_control(name: str) -> str:
        if controls.get(name) not in rows:
            return "-"
        return _subtract(known, (name, controls[name]), reference)[OVER.index(OOD)]

    cells = [
        [
            names[name],
            *_subtract(known, (name, OURS), reference),
            subtract_control(name),
            _compare_with_paper(rows, name, data),
            f"no, not within {CONVERGED_WITHIN} dB" if name in late else "yes",
        ]
        for name in rows
        if OURS in rows and name != OURS and not name.endswith(ONLY)
    ]
    header = ["network", *OVER, f"{OOD}, {OURS} trained as long"]
    header += ["the paper's noises: here / in the paper", "converged"]
    return format_markdown(header, cells) if cells else ""


def compare_wrapped(found: Sequence[Row], bare: Sequence[Row]) -> str:
    """Returns each wrapped row minus the same network as it is.

    What was wrapped after training, minus `bare`, the very same weights: no training
    lies between the two, so there is no margin of chance.
    """
    names = networks.describe()
    rows = {row.name: row for row in found}
    same = {**rows, **{row.name: row for row in bare}}
    cells = [
        [names[name], *_subtract(pool, (name, networks.name_preset(name)), ())]
        for name in rows
        for pool in [same if name.endswith(ONLY) else rows]
        if name.endswith((ONLY, WRAPPED)) and networks.name_preset(name) in pool
    ]
    return format_markdown(["network", *OVER], cells) if cells else ""


def _subtract(
    rows: Mapping[str, Row], pair: tuple[str, str], reference: Sequence[str]
) -> list[str]:
    """The differences of a pair, with the margin of chance where seeds tell it."""
    first, second = (rows[name] for name in pair)
    return [
        str(
            chance.Difference(
                first.psnr[over] - second.psnr[over],
                chance.find_margin(rows, reference, pair, over, OURS),
            )
        )
        for over in OVER
    ]


def _compare_with_paper(rows: Mapping[str, Row], name: str, data: str) -> str:
    """Our difference and the paper's own, over the noises that it has of both."""
    theirs = paper.find(data, PAPER_COLUMNS)
    rival, ours = theirs.get(PAPER.get(name, ""), {}), theirs.get("Ours", {})
    noises = [
        noise
        for noise in rival
        if noise in ours and noise != IN_DISTRIBUTION
        if not rival[noise].doubt and not ours[noise].doubt
    ]
    if not noises:
        return "-"
    here = np.mean([rows[name].psnr[n] - rows[OURS].psnr[n] for n in noises])
    there = np.mean([rival[n].psnr - ours[n].psnr for n in noises])
    shown = f"{here:+.2f}" if np.isfinite(here) else "not finite"
    return f"{shown} / {there:+.2f}, {len(noises)} noises"


def compare_kinds(found: Sequence[Row], late: Collection[str]) -> str:
    """Returns how the rivals compare with the two networks that keep the law."""
    on_time = [row for row in found if row.name not in late]
    return chance.compare_kinds(
        [row for row in on_time if row.name in PAPER],
        [row for row in on_time if row.name in (OURS, BASELINE)],
    )
