"""Scores of a denoiser on image sets under noises, by the tables' protocol.

Whole images; noise from `noise.sample_for_test`, a function of (seed, index of the
image in its set); PSNR and SSIM "rgb8"; a set's score is the mean over its images.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sevnet_jax.data import images, noise, sources
from sevnet_jax.evaluation import metrics

Restore = Callable[[np.ndarray], np.ndarray]  # float32 [H, W, 3] -> the same


@dataclasses.dataclass(frozen=True)
class Score:
    """What one image under one noise scores."""

    data: str
    image: str
    noise: str
    psnr: float
    ssim: float
    noisy_psnr: float
    noisy_ssim: float


def score_set(
    restore: Restore,
    folder: str | Path,
    noises: Sequence[str],
    seed: int = 0,
    limit: int | None = None,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> list[Score]:
    """Returns a score for each image of the folder and each noise."""
    source = sources.Folder(folder)
    indices = range(len(source) if limit is None else min(limit, len(source)))
    jobs = [(index, name) for index in indices for name in noises]
    scores = []
    for index, name in progress(jobs):
        clean = images.to_float(source[index])
        noisy = noise.sample_for_test(name, clean, seed=(seed, index))
        target, before, after = (
            metrics.to_rgb8(image) for image in (clean, noisy, restore(noisy))
        )
        scores.append(
            Score(
                data=Path(folder).name,
                image=Path(source.label(index)).name,
                noise=name,
                psnr=metrics.psnr(after, target),
                ssim=metrics.ssim(after, target),
                noisy_psnr=metrics.psnr(before, target),
                noisy_ssim=metrics.ssim(before, target),
            )
        )
    return scores


def summarize(scores: Sequence[Score]) -> dict[tuple[str, str], dict[str, float]]:
    """Returns the means for each (set, noise), in the order of the scores."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.data, score.noise), []).append(score)
    names = ("psnr", "ssim", "noisy_psnr", "noisy_ssim")
    return {
        key: {
            "images": len(group),
            **{
                name: float(np.mean([getattr(s, name) for s in group]))
                for name in names
            },
        }
        for key, group in groups.items()
    }
