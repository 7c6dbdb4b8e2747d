"""eval.py equivariance: a model's scale law, part by part, in numbers and a figure."""

import argparse
import dataclasses
import functools
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from sevnet_jax import equivariance
from sevnet_jax.config import build_model, load_config, split_spec
from sevnet_jax.equivariance import Measurement, Part, Row
from sevnet_jax.evaluation import report
from sevnet_jax.evaluation.commands.arguments import whole_number
from sevnet_jax.evaluation.report import finite, format_table, save_figure
from sevnet_jax.models import Network, create_model
from sevnet_jax.models.base import list_fields
from sevnet_jax.models.wrapper import NormalizationWrapper

HELP = "whether f(kx) = k f(x) holds, and which part breaks it; exit code 1 if one does"
WHOLE = "the whole network"
# Scales of the curve: powers of two, and three times each in between.
_EXPONENTS = [n for n in range(-40, 41, 5) if n]
SWEEP = (*(2.0**n for n in _EXPONENTS), *(3 * 2.0**n for n in _EXPONENTS))


@dataclasses.dataclass(frozen=True)
class Study:
    """The law of a model and of its parts, and who breaks it."""

    whole: Part
    parts: tuple[Part, ...]
    culprits: tuple[Part, ...]
    biases: bool = True  # False: they were set to 0


def study(
    model: Network,
    size: int,
    seed: int,
    dtype: str = "float32",
    biases: bool = True,
) -> Study:
    """Measures `model` with random weights on a random image of size x size.

    Without `biases` they are all 0, to show what else breaks the law.
    """
    shape = (1, size, size, model.channels)
    x = jax.random.uniform(jax.random.key(seed), shape, dtype)
    init = jax.jit(model.init)(jax.random.key(seed + 1), x)
    variables = equivariance.perturb(init, seed)
    if not biases:
        variables = jax.tree_util.tree_map_with_path(
            lambda path, leaf: 0 * leaf if path[-1].key == "bias" else leaf, variables
        )
    law = equivariance.measure(
        functools.partial(jax.jit(model.apply), variables),
        x,
        scales=(*equivariance.SCALES, *SWEEP),
    )
    whole = Part("", type(model).__name__, law, law.holds())
    parts = equivariance.measure_parts(
        model, variables, x, select=lambda path: path != "" and "/" not in path
    )
    culprits = []
    if not whole.holds:
        culprits = equivariance.locate(model, variables, x, scales=None)
    return Study(whole, tuple(parts), tuple(culprits), biases)


def format_study(result: Study) -> str:
    """A row a part, a column a scale: `=` is exact to the last bit, else the error."""
    rows = [
        [
            part.path or WHOLE,
            part.kind,
            f"{part.measurement.degree:.3f}",
            f"{part.measurement.degree_spread:.0e}",
            *(_cell(part.measurement, scale) for scale in equivariance.SCALES),
            "yes" if part.holds else "NO",
        ]
        for part in (*result.parts, result.whole)
    ]
    scales = map(equivariance.format_scale, equivariance.SCALES)
    header = ["part", "kind", "degree", "+-", *scales, "law holds"]
    law = result.whole.measurement
    shift_error = max(row.relative_error for row in law.shifts)
    lines = [
        "Columns are scales k; = is exact to the last bit, a number the error.",
        format_table(header, rows),
        f"f(x + b) = f(x) + b: gain {law.shift_gain:.4f}, error {shift_error:.1e}",
    ]
    if result.whole.holds:
        others = max(r.relative_error for r in law.scales if not r.must_be_exact)
        lines.append(f"The law holds: exact for powers of two, {others:.1e} elsewhere.")
    else:
        lines.append("The law is broken by, the first ones of the data flow first:")
        lines += [f"  {line}" for line in format_culprits(result.culprits)]
    return "\n".join(lines)


def format_culprits(culprits: Sequence[Part]) -> list[str]:
    """A line for each part; for all parts whose names differ in numbers only, one."""
    groups: dict[tuple[str, str], list[Part]] = {}
    for part in culprits:
        pattern = re.sub(r"\d+", "*", part.path)
        groups.setdefault((pattern, part.kind), []).append(part)
    lines = []
    for (_, kind), parts in groups.items():
        paths = {part.path for part in parts}  # a part may be called several times
        count = f", {len(paths)} parts" if len(paths) > 1 else ""
        degrees = [part.measurement.degree for part in parts]
        ends = (f"{degree:.3f}" for degree in (min(degrees), max(degrees)))
        degree = " to ".join(dict.fromkeys(ends))
        name = _merge(sorted(paths)) or WHOLE
        lines.append(f"{name} ({kind}{count}): measured degree {degree}")
    return lines


def _merge(paths: Sequence[str]) -> str:
    """One name for paths that differ in numbers only; a star where they do."""
    pieces = zip(*(re.split(r"(\d+)", path) for path in paths), strict=True)
    return "".join(piece[0] if len({*piece}) == 1 else "*" for piece in pieces)


def to_json(result: Study) -> dict[str, Any]:
    """The study in JSON's own types: what is not finite becomes None."""

    return {
        "holds": result.whole.holds,
        "biases": result.biases,
        "culprits": [part.path for part in result.culprits],
        "whole": finite(dataclasses.asdict(result.whole)),
        "parts": [finite(dataclasses.asdict(part)) for part in result.parts],
    }


def plot_studies(studies: Mapping[str, Study], path: str | Path) -> None:
    """Draws the relative error of f(kx) = k f(x) against k.

    Marks are powers of two, the thin line joins the scales between them. Both end where
    a model overflows.
    """
    floor = 1e-9  # where exact results, which have no logarithm, are drawn
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (name, result) in enumerate(studies.items()):
        law = result.whole.measurement
        rows = [row for row in law.scales if math.isfinite(row.relative_error)]
        powers = [row for row in rows if row.must_be_exact]
        others = [row for row in rows if not row.must_be_exact]
        marker = "os^DvPX*"[number % 8]
        for chosen, style in (
            (powers, {"linestyle": "", "marker": marker, "label": name}),
            (others, {"linewidth": 1}),
        ):
            chosen = sorted(chosen, key=lambda row: row.value)
            values = [row.value for row in chosen]
            errors = [max(row.relative_error, floor) for row in chosen]
            axes.plot(values, errors, color=f"C{number}", markersize=5, **style)
    axes.axhspan(floor / 3, floor * 3, color="tab:green", alpha=0.15, linewidth=0)
    axes.annotate(
        "exact to the last bit",
        (0.01, floor * 5),
        xycoords=("axes fraction", "data"),
        va="bottom",
    )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([2.0**n for n in range(-40, 41, 10)]))
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor / 3)
    axes.set_xlabel("scale k")
    axes.set_ylabel("largest |f(kx) - k f(x)| / largest |k f(x)|")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", frameon=False)
    save_figure(figure, path)


def _cell(law: Measurement, scale: float) -> str:
    row: Row = min(law.scales, key=lambda row: abs(math.log(row.value / scale)))
    if row.bit_exact:
        return "="
    return f"{row.relative_error:.0e}" if math.isfinite(row.norm) else "overflow"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE[:ARGUMENT]",
        help="configs/sevnet.py, configs/ablations.py:2f, ...; may be repeated",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME",
        help="a network by its name; may be repeated",
    )
    parser.add_argument(
        "--size", type=whole_number(1), default=32, help="image side (default: 32)"
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, help="seed of weights and image"
    )
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--no-biases",
        action="store_true",
        help="set parameters named bias to 0, to see what else breaks the law",
    )
    parser.add_argument("--out", default="runs/equivariance.png", help="the figure")
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    models = {spec: build_model(load_config(spec)) for spec in args.config}
    models |= {name: create_model(name) for name in args.model}
    if not models:
        raise ValueError("give --config FILE or --model NAME")
    studies = {}
    for name, model in models.items():
        # A rematerialised block would hide its parts.
        own = {"remat": False, "dtype": args.dtype}
        wrapped = isinstance(model, NormalizationWrapper)
        known = list_fields(type(model.inner if wrapped else model))
        model = model.with_fields(**{k: v for k, v in own.items() if k in known})
        # Elsewhere than on a CPU, float32 products may be rounded to fewer bits.
        with jax.default_matmul_precision("highest"):
            studies[name] = study(
                model, args.size, args.seed, args.dtype, not args.no_biases
            )
        if not args.json:
            weights = f"weights{' without biases' * args.no_biases}"
            print(
                f"{name}: is f(kx) = k f(x)? Random {weights} and image, {args.dtype}."
            )
            print(format_study(studies[name]))
    if args.json:
        found = [{"config": s, **to_json(r)} for s, r in studies.items()]
        print(json.dumps(found, indent=2))
    short = [shorten(spec) for spec in studies]
    labels = [
        s if short.count(s) == 1 else spec
        for s, spec in zip(short, studies, strict=True)
    ]
    plot_studies(dict(zip(labels, studies.values(), strict=True)), args.out)
    print(f"figure: {args.out}", file=sys.stderr)
    return 0 if all(result.whole.holds for result in studies.values()) else 1


def shorten(spec: str) -> str:
    path, argument = split_spec(spec)
    return ":".join([Path(path).stem, *([argument] if argument else [])])
