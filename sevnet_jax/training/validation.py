"""How good the weights are now, in distribution and out of it, always on one set."""

from collections.abc import Callable, Mapping

import numpy as np
from jax import Array

from sevnet_jax.data import images, noise, sources
from sevnet_jax.evaluation import metrics
from sevnet_jax.training.recipe import Recipe

SHOWN = 3  # images in a grid


class Validation:
    """Clean images and their noisy versions, the same at every call."""

    def __init__(self, recipe: Recipe):
        source = sources.open_one(recipe.validation_source, recipe.validation_size)
        count = min(recipe.validation_images, len(source))
        chosen = [source[i * len(source) // count] for i in range(count)]
        self._clean = np.stack([_centre(i, recipe.validation_size) for i in chosen])
        self._noisy = {
            name: np.stack(
                [
                    noise.sample_for_test(name, image, seed=(recipe.seed, index))
                    for index, image in enumerate(self._clean)
                ]
            )
            for name in recipe.validation_noises
        }

    def score(
        self, restore: Callable[[np.ndarray], Array]
    ) -> tuple[dict[str, float], np.ndarray]:
        """Returns mean PSNR and SSIM for each noise, and a picture to look at.

        The picture has a row for each noise: noisy, restored, clean, side by side.
        """
        values, rows = {}, []
        clean = [metrics.to_rgb8(image) for image in self._clean]
        for name, noisy in self._noisy.items():
            # One image at a time: validation must not need more memory than training.
            floats = [np.asarray(restore(image[None]))[0] for image in noisy]
            restored = [metrics.to_rgb8(np.nan_to_num(image)) for image in floats]
            for metric in (metrics.psnr, metrics.ssim):
                # A network may overflow on one noise and train well on another.
                scores = [
                    metric(r, c) if np.isfinite(f).all() else np.nan
                    for f, r, c in zip(floats, restored, clean, strict=True)
                ]
                values[f"{metric.__name__} {name}"] = float(np.mean(scores))
            panels = [
                panel
                for i in range(min(SHOWN, len(clean)))
                for panel in (metrics.to_rgb8(noisy[i]), restored[i], clean[i])
            ]
            rows.append(np.concatenate(panels, axis=1))
        return values, np.concatenate(rows, axis=0)


def describe(values: Mapping[str, float]) -> str:
    """Returns the PSNR of each noise in a line."""
    scores = ", ".join(
        f"{name.removeprefix('psnr ')} {value:.2f} dB"
        for name, value in values.items()
        if name.startswith("psnr")
    )
    return f"{metrics.PROTOCOL}: {scores}"


def _centre(pixels: np.ndarray, side: int) -> np.ndarray:
    top, left = ((length - side) // 2 for length in pixels.shape[:2])
    return images.to_float(pixels[top : top + side, left : left + side])
