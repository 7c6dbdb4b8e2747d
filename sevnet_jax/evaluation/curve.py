"""PSNR against the noise level: how far beyond its training a method holds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, protocol, runner
from sevnet_jax.evaluation.report import format_table

NOISY = "noisy"
LEVELS = (5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)
LAWS = ("gaussian", "speckle", "speckle*", "poisson")
# What a law's levels are where they are not of 255.
OWN_LEVELS = {"poisson": (0.5, 1, 2, 3, 4, 5, 6)}


@dataclasses.dataclass(frozen=True)
class Curve:
    """The mean PSNR of each method on a set, level by level."""

    data: str
    images: str  # how many
    law: str
    levels: tuple[float, ...]
    psnr: Mapping[str, tuple[float, ...]]
    trained: tuple[float, float] | None  # the levels of training, if of this law


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
    """Returns the Gaussian levels that the first weights were trained on, if known."""
    for method in chosen:
        if law != "gaussian" or method.denoiser is None:
            continue
        recipe = method.denoiser.weights.provenance.get("recipe", {})
        try:
            trained = noise.parse(recipe.get("noise", ""))
        except ValueError:  # weights from elsewhere, or of a law that is gone
            return None
        if not isinstance(trained, noise.Gaussian):
            return None
        high = trained.max_level_8bit
        return trained.level_8bit, trained.level_8bit if high is None else high
    return None


def build(
    result: runner.Run,
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


def to_json(curve: Curve, result: runner.Run) -> dict[str, Any]:
    """Returns the curve with all that `runner.describe` says of its run."""
    return {"curve": dataclasses.asdict(curve), **runner.describe(result)}
