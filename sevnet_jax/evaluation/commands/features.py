"""eval.py features: how much a network's features depend on the noise's level map.

One photo and one draw of noise, under several level maps. Only the map differs, so a
network that factors out the noise level has the same features under all maps.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib
import numpy as np
from flax import linen as nn
from jax import Array

from sevnet_jax import images, metrics
from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, report, sheet
from sevnet_jax.evaluation.commands import arguments
from sevnet_jax.evaluation.commands.arguments import whole_number
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.evaluation.sheet import Panel
from sevnet_jax.models import Network, NormalizationWrapper, SEVNet
from sevnet_jax.runtime import compiler_options
from sevnet_jax.weights import Weights

HELP = "how similar a network's last features are under different level maps"
SIZE = 256
NOISES = ("speckle:40", "variant1", "variant2")
COLOURS = "viridis"
SHOWN_SIDE = 512  # pixels, or a part of that
OUTLIERS = (1, 99)  # percentiles between which the colours run


@dataclasses.dataclass(frozen=True)
class Study:
    """A network's features under each noise, against those under the first."""

    maps: Mapping[str, np.ndarray]  # mean over the channels, rms 1, [H, W]
    cosine: Mapping[str, float]  # of all features
    map_cosine: Mapping[str, float]  # of the means over the channels


def add_noises(
    clean: np.ndarray, noises: Sequence[str], seed: int = 0
) -> dict[str, np.ndarray]:
    """Returns `clean` under each noise; all noises share one draw."""
    if len(set(noises)) < 2:
        raise ValueError(f"need two noises or more to compare, got {', '.join(noises)}")
    first = _find_draw(noises[0])
    for name in noises:
        if _find_draw(name) != first:
            raise ValueError(
                f"{name!r} draws other noise than {noises[0]!r}, so that more than "
                "the level map would differ; Gaussian: gaussian:S, speckle:S, "
                "variant1, variant2, variant3; Laplace: speckle*:S, variant1*, ..."
            )
    return {name: noise.sample_for_test(name, clean, seed=(seed, 0)) for name in noises}


def _find_draw(name: str) -> str:
    """The base noise that a law scales by its level map; its name if it has none."""
    law = noise.parse(name)
    if isinstance(law, noise.Gaussian) and law.max_level_8bit is None:
        return "normal"
    if isinstance(law, noise.Poisson):
        return "poisson"
    return getattr(law, "base", name)


def extract(model: Network, params: Any, x: Array) -> Array:
    """Returns what enters the tail for images [B, H, W, C]: the last decoder stage.

    A stage without blocks hands on its upsampled input plus its skip.
    """
    stem = find_stem(model)
    seen = []

    def watch(next_fun, args, kwargs, context):
        if context.module.path[-1:] == ("tail",):  # also of a wrapped network
            seen.append(args[0])
        return next_fun(*args, **kwargs)

    with nn.intercept_methods(watch), jax.default_matmul_precision("highest"):
        model.apply(params, x)
    height, width = (-(-side // stem) for side in x.shape[1:3])
    return seen[0][:, :height, :width]  # without the padding


def find_stem(model: Network) -> int:
    """Returns how many pixels a side one feature stands for."""
    network = model.inner if isinstance(model, NormalizationWrapper) else model
    if not isinstance(network, SEVNet):
        kind = type(network).__name__
        raise ValueError(f"the features of a SEVNet can be studied, not of a {kind}")
    return network.stem


def study(weights: Weights, noisy: Mapping[str, np.ndarray]) -> Study:
    """Compares the features under each noise with those under the first."""
    read = jax.jit(
        lambda params, x: extract(weights.model, params, x[None])[0],
        compiler_options=compiler_options(forward=True),
    )
    maps, cosine, map_cosine = {}, {}, {}
    first = first_map = None
    for name, image in noisy.items():
        found = np.asarray(read(weights.params, image), np.float64)
        if not np.isfinite(found).all():
            raise ValueError(f"the features under {name} are not all finite")
        mean = found.mean(-1)
        if first is None or first_map is None:
            first, first_map = found, mean
        cosine[name] = compute_cosine(first, found)
        map_cosine[name] = compute_cosine(first_map, mean)
        # Features of a homogeneous network grow with its input: compare shapes only.
        shape = mean / max(np.sqrt(np.mean(np.square(mean))), np.finfo(float).tiny)
        side = find_stem(weights.model)
        enlarged = shape.repeat(side, 0).repeat(side, 1)
        maps[name] = enlarged[: image.shape[0], : image.shape[1]]
    return Study(maps, cosine, map_cosine)


def compute_cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the cosine of the angle between two arrays; NaN if one is 0."""
    a, b = a.ravel(), b.ravel()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else float("nan")


def cut_centre(image: np.ndarray, size: int) -> np.ndarray:
    """Returns the central part of at most size x size pixels."""
    top, left = (max(0, (side - size) // 2) for side in image.shape[:2])
    return image[top : top + size, left : left + size]


def format_studies(studies: Mapping[str, Study]) -> str:
    """Returns a line for each network and noise, against the first noise."""
    rows = [
        [name, law, f"{found.cosine[law]:.4f}", f"{found.map_cosine[law]:.4f}"]
        for name, found in studies.items()
        for law in list(found.cosine)[1:]
    ]
    return format_table(["network", "noise", "cosine", "of mean maps"], rows)


def to_json(found: Study) -> dict[str, Any]:
    """Returns the similarities alone."""
    return {"cosine": dict(found.cosine), "map_cosine": dict(found.map_cosine)}


def draw(
    noisy: Mapping[str, np.ndarray], studies: Mapping[str, Study], path: str | Path
) -> None:
    """Writes a row with the noisy photos, and one a network with its mean maps."""
    factor = max(1, SHOWN_SIDE // max(next(iter(noisy.values())).shape[:2]))
    rows = [
        [
            Panel(f"noisy, {name}", sheet.enlarge(metrics.to_rgb8(image), factor))
            for name, image in noisy.items()
        ]
    ]
    for network, found in studies.items():
        low, high = np.percentile(list(found.maps.values()), OUTLIERS)
        rows.append([])
        for number, (name, values) in enumerate(found.maps.items()):
            share = (values - low) / max(high - low, np.finfo(float).tiny)
            pixels = metrics.to_rgb8(matplotlib.colormaps[COLOURS](share)[..., :3])
            words = f"{network}: mean of features, {name}"
            if number:
                words = (
                    f"{name}: cosine {found.cosine[name]:.3f} of features, "
                    f"{found.map_cosine[name]:.3f} of means"
                )
            rows[-1].append(Panel(words, sheet.enlarge(pixels, factor)))
    sheet.draw(rows, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image", required=True, help="a clean photo")
    parser.add_argument(
        "--weights",
        nargs="+",
        metavar="W",
        help="weights files, folders of training runs, or names of bundled weights "
        "(default: sevnet_s); LABEL=W sets the label",
    )
    parser.add_argument(
        "--noises",
        nargs="+",
        default=list(NOISES),
        metavar="N",
        help="the reference noise, then those to compare with it (default: "
        f"{' '.join(NOISES)})",
    )
    parser.add_argument(
        "--size",
        type=whole_number(1),
        default=SIZE,
        help=f"side of the central part that is studied (default: {SIZE})",
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, help="seed of the noise"
    )
    parser.add_argument("--out", default="runs/features.png", help="the figure")
    parser.add_argument("--json", metavar="FILE", help="the similarities, as JSON")


def run(args: argparse.Namespace) -> int:
    report.check_figure_path(args.out)
    arguments.check_json(args.json)
    pixels = images.to_channels(images.read_named_pixels(args.image), 3)
    photo = images.to_float(pixels)
    clean = cut_centre(photo, args.size)
    noisy = add_noises(clean, args.noises, args.seed)
    networks = methods.open_methods(args.weights)
    studies = {
        network.name: study(network.denoiser.weights, noisy)
        for network in networks
        if network.denoiser is not None  # all of them: weights were asked for
    }
    height, width = clean.shape[:2]
    print(f"Similarity of the last decoder stage's features, {width}x{height} pixels,")
    print(f"one draw of noise, each against {args.noises[0]}:")
    print(format_studies(studies))
    draw(noisy, studies, args.out)
    print(f"figure: {args.out}", file=sys.stderr)
    if args.json:
        arguments.write_json(
            args.json,
            {
                "image": Path(args.image).name,
                "reference": args.noises[0],
                "seed": args.seed,
                "size": [height, width],
                "networks": {
                    network.name: {
                        **network.provenance,
                        **to_json(studies[network.name]),
                    }
                    for network in networks
                },
            },
        )
    return 0
