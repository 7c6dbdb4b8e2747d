"""Means over groups of noises that a trained row is judged by."""

from collections.abc import Mapping

import numpy as np

IN_DISTRIBUTION = "gaussian:20"
# The columns of the paper's ablation, and the one that training is closest to.
NOISES = (
    IN_DISTRIBUTION,
    "speckle:90",
    "poisson:6",
    "mixture",
    "variant1",
    "variant2",
    "variant3",
)
OOD = "mean of 16"  # noises: all but that of training
VARYING = "mean of 6 variants"  # whose level varies over the image by a map
PAPER_MEAN = "mean of the paper's 6 noises"
BEYOND = f" - {IN_DISTRIBUTION}"  # behind a mean: what is lost out of distribution


def add_means(cells: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Returns {noise: scores} with the means over groups of noises, and BEYOND them."""
    theirs = [noise for noise in NOISES if noise != IN_DISTRIBUTION]
    groups = {
        OOD: [noise for noise in cells if noise != IN_DISTRIBUTION],
        VARYING: [noise for noise in cells if noise.startswith("variant")],
        PAPER_MEAN: theirs,
    }
    means = {
        name: {
            metric: float(np.mean([cells[noise][metric] for noise in noises]))
            for metric in ("psnr", "ssim")
        }
        for name, noises in groups.items()
        if noises and all(noise in cells for noise in noises)
    }
    inside = cells.get(IN_DISTRIBUTION)
    beyond = {
        name + BEYOND: {metric: mean[metric] - inside[metric] for metric in mean}
        for name, mean in means.items()
        if inside
    }
    return {**cells, **means, **beyond}
