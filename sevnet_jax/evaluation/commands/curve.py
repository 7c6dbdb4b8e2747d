"""eval.py curve: PSNR against the noise level, far beyond the training range."""

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sevnet_jax.data import noise
from sevnet_jax.evaluation import curve_figure, methods, protocol, report, runs, scenes
from sevnet_jax.evaluation.commands import arguments
from sevnet_jax.evaluation.curve_figure import NOISY, Curve
from sevnet_jax.evaluation.report import format_table

HELP = "mean PSNR against the noise level, far beyond the levels of training"
LEVELS: tuple[float, ...] = (5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)
LAWS = ("gaussian", "speckle", "speckle*", "poisson")
# What a law's levels are where they are not of 255.
OWN_LEVELS: dict[str, tuple[float, ...]] = {"poisson": (0.5, 1, 2, 3, 4, 5, 6)}


def choose_levels(law: str, levels: Sequence[float] | None) -> tuple[float, ...]:
    """Returns the levels in order, each once; ValueError if the law takes them not."""
    if law not in LAWS:
        raise ValueError(f"noise {law!r} has no level; choose from {', '.join(LAWS)}")
    chosen = tuple(sorted(set(levels or OWN_LEVELS.get(law, LEVELS))))
    for name in name_noises(law, chosen):
        noise.parse(name)
    return chosen


def name_noises(law: str, levels: Sequence[float]) -> list[str]:
    return [f"{law}:{level:.12g}" for level in levels]


def arrange(chosen: Sequence[methods.Method]) -> list[methods.Method]:
    """Returns the noisy input, which is always drawn, then networks, then others."""
    others = [method for method in chosen if method.name != NOISY]
    networks_first = sorted(others, key=lambda method: method.denoiser is None)
    return [methods.open_classical(NOISY), *networks_first]


def find_training_range(
    law: str, chosen: Sequence[methods.Method]
) -> tuple[float, float] | None:
    """Returns the Gaussian levels that all weights were trained on, if they agree."""
    if law != "gaussian":
        return None
    networks = [method.denoiser for method in chosen if method.denoiser]
    found = {_read_training_range(n.weights.provenance) for n in networks}
    return found.pop() if len(found) == 1 else None


def _read_training_range(
    provenance: Mapping[str, Any],
) -> tuple[float, float] | None:
    recipe = provenance.get("recipe", {})
    try:
        # Weights of earlier versions have a flat recipe.
        trained = noise.parse(recipe.get("data", recipe).get("noise", ""))
    except ValueError:  # weights from elsewhere, or of a law that is gone
        return None
    ends: list[float] = []
    for law in getattr(trained, "laws", (trained,)):  # one of several
        if not isinstance(law, noise.Gaussian):
            return None
        high = law.max_level_8bit
        ends += [law.level_8bit, law.level_8bit if high is None else high]
    return min(ends), max(ends)


def build(
    result: runs.Run,
    law: str,
    levels: Sequence[float],
    trained: tuple[float, float] | None,
) -> Curve:
    """Returns the curve of a run on one set."""
    means = protocol.summarize(result.scores)
    names = name_noises(law, levels)
    (data,) = result.set_sizes
    psnr = {
        method: tuple(means[data, method, name]["psnr"] for name in names)
        for method in dict.fromkeys(score.method for score in result.scores)
    }
    count = max(mean["images"] for mean in means.values())
    images = protocol.count_images(count, result.set_sizes[data])
    return Curve(data, images, law, tuple(levels), psnr, trained)


def format_curve(curve: Curve) -> str:
    """Returns a line for each method, a column for each level."""
    rows = [[name, *(f"{v:.2f}" for v in line)] for name, line in curve.psnr.items()]
    title = f"{curve.data}, {curve.images}, PSNR in dB, {protocol.DESCRIPTION}:"
    levels = [f"{level:g}" for level in curve.levels]
    return f"{title}\n{format_table([curve.law, *levels], rows)}"


def to_json(curve: Curve, result: runs.Run) -> dict[str, Any]:
    """Returns the curve with all that `runs.describe` says of its run."""
    return {"curve": dataclasses.asdict(curve), **runs.describe(result)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, metavar="FOLDER", help="clean images")
    arguments.add_methods(parser)
    arguments.add_grey(parser)
    parser.add_argument(
        "--noise",
        default="gaussian",
        metavar="LAW",
        help=f"noise to vary: {', '.join(LAWS)} (default: gaussian)",
    )
    parser.add_argument(
        "--levels",
        nargs="+",
        type=float,
        metavar="L",
        help=f"noise levels (default: {' '.join(map(str, LEVELS))}; poisson has its "
        "own)",
    )
    parser.add_argument(
        "--limit",
        type=arguments.whole_number(1),
        help="use only the first LIMIT images",
    )
    parser.add_argument(
        "--seed", type=arguments.whole_number(0), default=0, help="seed of the noise"
    )
    parser.add_argument("--out", default="runs/curve.png", help="the figure")
    parser.add_argument("--json", metavar="FILE", help="every score, as JSON")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    arguments.check_json(args.json)
    levels = choose_levels(args.noise, args.levels)
    noises = name_noises(args.noise, levels)
    opened = arrange(arguments.open_methods(args))
    channels = methods.find_channels(opened, args.grey)
    found = scenes.from_folder(args.data, noises, args.seed, args.limit, channels)
    # Of its own: figures beside each other may be drawn at the same time.
    folder = Path(args.out).with_name(f".{Path(args.out).name}.unfinished")
    result = runs.run(found, opened, folder, args.seed)
    trained = find_training_range(args.noise, opened)
    drawn = build(result, args.noise, levels, trained)
    print(format_curve(drawn))
    curve_figure.draw(drawn, args.out)
    print(f"figure: {args.out}", file=sys.stderr)
    if args.json:
        arguments.write_json(args.json, to_json(drawn, result))
    result.progress.finish()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return runs.report_skipped(result)
