"""Noise laws made of other laws: one of several, then JPEG, or enlarged. NumPy only."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sevnet_jax.data import patches, postprocessing

MOST_ENLARGED = 2.0

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
        factor = draw.uniform((), 1, MOST_ENLARGED)
        rows, columns = (max(1, round(float(n / factor))) for n in (height, width))
        small = np.clip(postprocessing.resize(clean, rows, columns), 0, 1)
        noise = self.law(small, draw) - small
        return clean + postprocessing.resize(noise, height, width)
