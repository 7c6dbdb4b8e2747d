"""PSNR against the sigma of Gaussian noise, from the files of runs."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

from sevnet_jax.data import noise
from sevnet_jax.evaluation import curve_figure
from sevnet_jax.evaluation.curve_figure import Curve
from sevnet_jax.evaluation.report import format_json, format_markdown
from sevnet_jax.files import write_atomically
from studies import results
from studies.results import Run
from studies.rivals import networks
from studies.rivals.networks import BASELINE, NOISY, OURS, PAPER


def make(runs: Mapping[str, Run], chosen: Mapping[str, Run]) -> Curve:
    """Returns the curve of the noisy images and of every row's first seed."""
    names = {**networks.describe(), NOISY: curve_figure.NOISY}
    shown = [run for run in runs.values() if run["row"] == NOISY]
    shown += [run for run in chosen.values() if run["seed"] == 0]
    shown.sort(key=lambda run: [*names].index(run["row"]))
    recipe = results.find_recipe(next(iter(chosen.values())))
    law = noise.parse(recipe["data.noise"])
    first = shown[0]["curve"]
    psnr = {
        names[run["row"]]: tuple(
            math.nan if value is None else value for value in run["curve"]["psnr"]
        )
        for run in shown
    }
    trained = (law.level_8bit, law.max_level_8bit)
    return Curve(
        first["data"], first["images"], "gaussian", (*first["levels"],), psnr, trained
    )


def tabulate(curve: Curve) -> str:
    """Returns the numbers of a curve."""
    cells = [
        [name, *(results.format_psnr(psnr) for psnr in scores)]
        for name, scores in curve.psnr.items()
    ]
    return format_markdown(["sigma", *(f"{level:g}" for level in curve.levels)], cells)


def select(curve: Curve) -> Curve:
    """Returns the curve without what is wrapped or a control: what is drawn."""
    names = networks.describe()
    drawn = {curve_figure.NOISY, *(names[row] for row in (OURS, BASELINE, *PAPER))}
    psnr = {name: scores for name, scores in curve.psnr.items() if name in drawn}
    return dataclasses.replace(curve, psnr=psnr)


def draw(curve: Curve, folder: Path) -> None:
    """Writes the figure, and beside it its numbers."""
    shown = select(curve)
    curve_figure.draw(shown, folder / "curve.png")
    text = format_json(dataclasses.asdict(shown))
    write_atomically(folder / "curve.json", lambda part: part.write_text(text))
