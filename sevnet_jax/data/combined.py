"""Noise laws made of other laws: one of several, then JPEG, enlarged or smoothed.

NumPy only.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sevnet_jax.data import patches, postprocessing
from sevnet_jax.images.pixels import LUMA

# Deviations of the Gaussians, in pixels, with which a camera smooths at most.
MOST_SMOOTH_LUMA = 0.8
MOST_SMOOTH_CHROMA = 3.0

# (clean, draw) -> noisy, as in noise.py
Law = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class OneOf:
    """One of several laws, drawn once an image; one may be named more than once."""

    laws: tuple[Law, ...]

    # Which law it is, a graph would have to branch on.
    numpy_only: ClassVar[bool] = True

    def __call__(self, clean, draw):
        law = self.laws[patches.pick(draw.uniform((), 0, 1), len(self.laws))]
        return law(clean, draw)


@dataclasses.dataclass(frozen=True)
class Compressed:
    """Another law, clipped, and then JPEG of a quality that is drawn once an image."""

    law: Law

    numpy_only: ClassVar[bool] = True

    def __call__(self, clean, draw):
        noisy = np.clip(self.law(clean, draw), 0, 1)
        return postprocessing.compress(noisy, postprocessing.draw_quality(draw))


@dataclasses.dataclass(frozen=True)
class Enlarged:
    """The noise of another law at a larger grain, as in an image that was enlarged.

    The factor, 1 to MOST_ENLARGED, is drawn once an image. The clean image stays sharp.
    """

    law: Law

    numpy_only: ClassVar[bool] = True

    def __call__(self, clean, draw):
        height, width = clean.shape[:2]
        factor = draw.uniform((), 1, patches.MOST_ENLARGED)
        rows, columns = (max(1, round(float(n / factor))) for n in (height, width))
        small = np.clip(patches.resize(clean, rows, columns), 0, 1)
        noise = self.law(small, draw) - small
        return clean + patches.resize(noise, height, width)


@dataclasses.dataclass(frozen=True)
class Smoothed:
    """The noise of another law after a camera's own noise reduction.

    Cameras smooth noise of colour more than that of brightness. Both widths are drawn
    once an image, from nothing up. The clean image stays sharp.
    """

    law: Law

    numpy_only: ClassVar[bool] = True

    def __call__(self, clean, draw):
        from scipy import ndimage

        def smooth(noise, width):
            return ndimage.gaussian_filter(noise, (width, width, 0), mode="reflect")

        luma_width = draw.uniform((), 0, MOST_SMOOTH_LUMA)
        chroma_width = draw.uniform((), 0, MOST_SMOOTH_CHROMA)
        noise = self.law(clean, draw) - clean
        if clean.shape[-1] != len(LUMA):
            return clean + smooth(noise, luma_width)
        luma = noise @ (np.array([LUMA], np.float32).T / 2**16)
        return clean + smooth(luma, luma_width) + smooth(noise - luma, chroma_width)
