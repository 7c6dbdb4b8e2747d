"""How good the weights are now, in distribution and out of it, always on one set."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array

from sevnet_jax.data import images, noise, sources
from sevnet_jax.evaluation import metrics
from sevnet_jax.training.recipe import Recipe

SHOWN = 3  # images in a grid


class Validation:
    """Clean images and their noisy versions, the same at every call."""

    def __init__(self, recipe: Recipe):
        ((source, _),) = sources.open_sources(
            recipe.validation_source, recipe.validation_size
        )
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
        self, restore: Callable[[Any, np.ndarray], Array], params: Any
    ) -> tuple[dict[str, float], np.ndarray]:
        """Returns mean PSNR and SSIM for each noise, and a picture to look at.

        The picture has a row for each noise: noisy, restored, clean, side by side.
        """
        values, rows = {}, []
        clean = [metrics.to_rgb8(image) for image in self._clean]
        for name, noisy in self._noisy.items():
            # One image at a time: validation must not need more memory than training.
            restored = [
                metrics.to_rgb8(np.asarray(restore(params, image[None]))[0])
                for image in noisy
            ]
            pairs = list(zip(restored, clean, strict=True))
            values[f"psnr {name}"] = float(np.mean([metrics.psnr(*p) for p in pairs]))
            values[f"ssim {name}"] = float(np.mean([metrics.ssim(*p) for p in pairs]))
            panels = [
                panel
                for i in range(min(SHOWN, len(clean)))
                for panel in (metrics.to_rgb8(noisy[i]), restored[i], clean[i])
            ]
            rows.append(np.concatenate(panels, axis=1))
        return values, np.concatenate(rows, axis=0)


def _centre(pixels: np.ndarray, side: int) -> np.ndarray:
    top, left = ((length - side) // 2 for length in pixels.shape[:2])
    return images.to_float(pixels[top : top + side, left : left + side])
