"""The curve of PSNR against the noise level, and its figure."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sevnet_jax import metrics
from sevnet_jax.evaluation.report import save_figure

NOISY = "noisy"  # the method that is the input itself
AXES = {
    "gaussian": r"noise level $\sigma$ (of 255)",
    "speckle": "speckle level s (of 255)",
    "speckle*": "speckle level s (of 255), Laplace",
    "poisson": r"poisson strength $\alpha$",
}
# Okabe and Ito's colours, told apart by the colour-blind, the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vPX*"
GREY, INK = "#808080", "#222222"
LONGEST_LABEL = 24
MANY = 8  # lines, beyond which they are thinner
LABEL_GAP = 0.055  # of the axes' height


@dataclasses.dataclass(frozen=True)
class Curve:
    """The mean PSNR of each method on a set, level by level."""

    data: str
    images: str  # how many
    law: str
    levels: tuple[float, ...]
    psnr: Mapping[str, tuple[float, ...]]
    trained: tuple[float, float] | None  # the levels of training, if of this law


def draw(curve: Curve, path: str | Path) -> None:
    """Writes the figure in the format that the ending of `path` names."""
    save_figure(plot(curve), path, dpi=200)


def plot(curve: Curve) -> Figure:
    """Returns a figure with a line for each method, its name at its end."""
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    names = [name for name in curve.psnr if name != NOISY]
    styles: dict[str, dict[str, Any]] = {
        NOISY: {
            "color": GREY,
            "linewidth": 1.2,
            "linestyle": (0, (4, 3)),
            "marker": ".",
        }
    }
    for number, name in enumerate(names):
        styles[name] = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "linewidth": 2 if len(names) <= MANY else 1.3,
            "markersize": 5 if len(names) <= MANY else 4,
        }
    ends = []
    for name, scores in curve.psnr.items():
        style = styles[name]
        values = np.asarray(scores)
        finite = np.isfinite(values)
        values = np.where(finite, values, np.nan)  # a gap where it is infinite
        axes.plot(curve.levels, values, **style)
        if finite.any():
            last = np.flatnonzero(finite)[-1]
            label = "noisy input" if name == NOISY else _shorten(name)
            ends.append((curve.levels[last], values[last], label, style["color"]))
    axes.margins(x=0.02)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(color=GREY, labelcolor=INK)
    axes.set_xlabel(AXES[curve.law], color=INK)
    axes.set_ylabel(f"PSNR, dB, {metrics.PROTOCOL}", color=INK)
    axes.set_title(f"{curve.data}, {curve.images}", loc="right", fontsize=9, color=GREY)
    if curve.trained:
        _shade(axes, *curve.trained)
    _label_ends(axes, ends)
    return figure


def _shorten(name: str) -> str:
    """A long module:function keeps its function."""
    return name if len(name) <= LONGEST_LABEL else name.rsplit(":")[-1][:LONGEST_LABEL]


def _shade(axes: Axes, low: float, high: float) -> None:
    # A neutral colour, so that it belongs to no line; one level alone still shows.
    axes.axvspan(low, high, color=INK, alpha=0.07, linewidth=2 * (low == high))
    levels = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    axes.annotate(
        f"trained on\n$\\sigma$ {levels}",
        ((low + high) / 2, 0.02),
        xycoords=("data", "axes fraction"),
        ha="center",
        va="bottom",
        fontsize=9,
        color=INK,
    )


def _label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    low, high = axes.get_ylim()
    places = spread([end[1] for end in ends], LABEL_GAP * (high - low))
    for (level, value, label, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            label,
            (level, value),
            (1.03, place),
            textcoords=axes.get_yaxis_transform(),
            va="center",
            color=colour,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "relpos": (0, 0.5),  # from before the text, or it would be crossed out
                "shrinkA": 2,
            },
        )


def spread(values: Sequence[float], gap: float) -> list[float]:
    """Returns the values moved as little as need be to lie `gap` apart."""
    order = np.argsort(values, kind="stable")
    # Minus its rank times the gap, each must be no less than the one below: groups
    # that are not share their mean.
    groups: list[list[float]] = []
    for rank, index in enumerate(order):
        groups.append([values[index] - rank * gap])
        while len(groups) > 1 and np.mean(groups[-2]) > np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    levelled = [np.mean(group) for group in groups for _ in group]
    places = np.empty(len(values))
    places[order] = np.add(levelled, gap * np.arange(len(values)))
    return places.tolist()
