"""What a translator does to noise: its values, its spectrum, and the restored image."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sevnet_jax import metrics
from sevnet_jax.evaluation.report import format_table, save_figure
from sevnet_jax.evaluation.scenes import Scene
from sevnet_jax.evaluation.sheet import Crop
from sevnet_jax.runtime import compiler_options
from sevnet_jax.weights import Weights

EDGES = np.linspace(-5, 5, 81)  # of the histogram, in deviations
BANDS = 32  # of the spectrum, up to 0.5 cycles a pixel
COLOURS = {"noisy": "#D55E00", "translated": "#0072B2"}
IDEAL = "#222222"


@dataclasses.dataclass(frozen=True)
class Noise:
    """What all images' noise has in common, each image's in units of its deviation."""

    density: np.ndarray  # over EDGES
    spectrum: np.ndarray  # mean power in each band; white noise has 1 everywhere
    deviation: float  # of 255, the mean over images

    @property
    def from_gaussian(self) -> float:
        """Wasserstein-1 distance of the values from a Gaussian's, in deviations."""
        gaps = np.cumsum(self.density - gaussian_density()) * np.diff(EDGES)
        return float(np.abs(gaps).sum() * np.diff(EDGES)[0])

    @property
    def from_white(self) -> float:
        """Mean distance of the power in the bands from white noise's 1."""
        return float(np.abs(self.spectrum - 1).mean())


@dataclasses.dataclass(frozen=True)
class Example:
    """One image: uint8 pixels by name, as they are to be shown, and their PSNR."""

    pixels: dict[str, np.ndarray]
    psnr: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Study:
    noise: dict[str, Noise]  # of the noisy and of the translated images
    psnr: dict[str, float]  # mean over the images
    example: Example
    images: int


def gaussian_density() -> np.ndarray:
    """A unit Gaussian's density, as the mean over each bin of the histogram."""
    below = [0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in EDGES]
    return np.diff(below) / np.diff(EDGES)


def measure_noise(error: np.ndarray) -> Noise:
    """Returns what the error [H, W, C] of one image is like."""
    error = error.astype(np.float64) - error.mean(dtype=np.float64)
    deviation = error.std()
    if deviation == 0:
        raise ValueError("the image has no noise")
    counts, _ = np.histogram(error / deviation, EDGES)
    density = counts / error.size / np.diff(EDGES)
    return Noise(density, _find_bands(error / deviation), float(255 * deviation))


def average(noises: Sequence[Noise]) -> Noise:
    """Returns what the noises of several images have in common."""
    fields = (field.name for field in dataclasses.fields(Noise))
    means: list[Any] = [np.mean([getattr(n, f) for n in noises], 0) for f in fields]
    return Noise(*means)


def _find_bands(error: np.ndarray) -> np.ndarray:
    height, width, channels = error.shape
    power = np.abs(np.fft.fft2(error, axes=(0, 1))) ** 2 / (height * width)
    radius = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    band = np.minimum((radius / 0.5 * BANDS).astype(int), BANDS)  # corners: the last
    total = np.bincount(band.ravel(), power.sum(-1).ravel(), BANDS + 1)
    count = channels * np.bincount(band.ravel(), minlength=BANDS + 1)
    return (total / np.maximum(count, 1))[:BANDS]


def study(weights: Weights, scenes: Sequence[Scene], shown: int = 0) -> Study:
    """Runs a translator and its denoiser, joined, over pairs, one after another."""
    model = weights.model
    run = jax.jit(
        lambda params, x: model.apply(params, x[None], method="restore"),
        compiler_options=compiler_options(forward=True),
    )
    alone = jax.jit(
        lambda params, x: model.denoiser.apply(
            {"params": params["params"]["denoiser"]}, x[None]
        ),
        compiler_options=compiler_options(forward=True),
    )
    noises: dict[str, list[Noise]] = {"noisy": [], "translated": []}
    scores: dict[str, list[float]] = {}
    example = None
    for number, scene in enumerate(scenes):
        (given,) = scene.inputs()
        translated, restored = (
            np.asarray(image)[0] for image in run(weights.params, given.noisy)
        )
        clean = given.reference.clean.astype(np.float32) / 255
        try:
            noises["noisy"].append(measure_noise(given.noisy - clean))
            noises["translated"].append(measure_noise(translated - clean))
        except ValueError as error:
            raise ValueError(f"{scene.data}/{scene.image}: {error}") from None
        images = {
            "noisy": given.noisy,
            "translated": translated,
            "denoiser alone": np.asarray(alone(weights.params, given.noisy))[0],
            "translator and denoiser": restored,
        }
        pixels = {name: metrics.to_rgb8(image) for name, image in images.items()}
        psnr = {name: given.reference.psnr(p) for name, p in pixels.items()}
        for name, value in psnr.items():
            scores.setdefault(name, []).append(value)
        if number == shown:
            example = Example({**pixels, "reference": given.reference.clean}, psnr)
    if example is None:
        raise ValueError(f"there is no pair {shown + 1}, only {len(scenes)} pairs")
    return Study(
        {name: average(found) for name, found in noises.items()},
        {name: float(np.mean(values)) for name, values in scores.items()},
        example,
        len(scores["noisy"]),
    )


def format_study(found: Study) -> str:
    """Returns the numbers of a study as two small tables."""
    noise = [
        [
            name,
            f"{n.deviation:.2f}",
            f"{n.from_gaussian:.3f}",
            f"{n.from_white:.3f}",
        ]
        for name, n in found.noise.items()
    ]
    header = ["noise of the image", "deviation of 255", "from Gaussian", "from white"]
    scores = [[name, f"{value:.2f}"] for name, value in found.psnr.items()]
    psnr = ["image", f"PSNR, dB, {metrics.PROTOCOL}"]
    return f"{format_table(header, noise)}\n\n{format_table(psnr, scores)}"


def to_json(found: Study) -> dict[str, Any]:
    """Returns the numbers of a study."""
    return {
        "images": found.images,
        "psnr": found.psnr,
        "noise": {
            name: {
                "deviation": n.deviation,
                "from_gaussian": n.from_gaussian,
                "from_white": n.from_white,
                "density": n.density.tolist(),
                "spectrum": n.spectrum.tolist(),
            }
            for name, n in found.noise.items()
        },
    }


def draw(found: Study, crop: Crop, path: str | Path) -> None:
    """Writes histogram and spectrum, and below them crops of the example."""
    figure = Figure(figsize=(11, 5.7), layout="constrained")
    (upper,), (lower,) = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.15, 1))
    left, right = upper.subplots(1, 2)
    middles = (EDGES[:-1] + EDGES[1:]) / 2
    left.plot(middles, gaussian_density(), color=IDEAL, linestyle="--", linewidth=1)
    frequencies = (np.arange(BANDS) + 0.5) / BANDS / 2
    right.axhline(1, color=IDEAL, linestyle="--", linewidth=1, label="white Gaussian")
    for name, noise in found.noise.items():
        density = np.where(noise.density > 0, noise.density, np.nan)
        left.plot(middles, density, color=COLOURS[name], linewidth=2)
        right.plot(
            frequencies, noise.spectrum, color=COLOURS[name], linewidth=2, label=name
        )
    left.set_yscale("log")
    left.set_ylim(1e-5, None)
    _name_axes(left, "noise, in its deviations", "density")
    _name_axes(right, "frequency, cycles a pixel", "power, of its mean")
    right.set_yscale("log")
    right.legend(frameon=False)
    pictures = found.example.pixels
    for axes, name in zip(lower.subplots(1, len(pictures)), pictures, strict=True):
        axes.imshow(crop.cut(pictures[name]), interpolation="nearest")
        axes.set_axis_off()
        value = found.example.psnr.get(name)
        score = "" if value is None else f"\n{value:.2f} dB"
        axes.set_title(f"{name}{score}", fontsize=9, color=IDEAL)
    save_figure(figure, path)


def _name_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
