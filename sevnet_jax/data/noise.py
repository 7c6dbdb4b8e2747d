"""Noise models ("laws"): formulas that take their random numbers from `draw`.

One definition serves NumPy (tables, streams that never change) and TensorFlow
(training, stateless): a law uses operators that both understand, and asks `draw` for
`normal`, `laplace`, `uniform` (by shape) and `poisson` (by rate). The level is under
the square root, as a variance, because TensorFlow's graphs reorder longer products and
the last bit would differ from NumPy's. A new law is a dataclass here and a line in
`FIXED` or `MAKERS`.
"""

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sevnet_jax.data import combined, isp, maps

MIXTURE_SPECKLE_8BIT = 90
MIXTURE_POISSON = 6
VARIANT_RANGE_8BIT = (60, 120)

# The columns of the paper's tables, in its order; `*` marks the Laplace base.
PAPER_COLUMNS = (
    "gaussian:20",
    "speckle:60",
    "speckle:80",
    "speckle:90",
    "poisson:4",
    "poisson:5",
    "poisson:6",
    "mixture",
    "variant1",
    "variant2",
    "variant3",
    "speckle*:60",
    "speckle*:80",
    "speckle*:90",
    "variant1*",
    "variant2*",
    "variant3*",
)


class Draw(Protocol):
    """A source of random arrays; every call gives fresh, independent values."""

    def normal(self, shape: Any) -> Any: ...
    def laplace(self, shape: Any) -> Any: ...
    def uniform(self, shape: Any, low: float, high: float) -> Any: ...
    def poisson(self, rate: Any) -> Any: ...
    def sqrt(self, x: Any) -> Any: ...  # `x**0.5` is off by one ulp in eager TF


class NumpyDraw:
    """Draws from `RandomState`, a stream that NumPy promises never to change."""

    def __init__(self, seed: int | tuple[int, ...]):
        key: np.ndarray = np.asarray([*map(operator.index, np.ravel(seed))])
        if key.min() < 0:
            raise ValueError(f"a seed must not be negative, got {seed}")
        # Two words a number, so that seeds beyond 32 bits stay distinct.
        words = np.stack([key & 0xFFFFFFFF, key >> 32], -1).astype(np.uint32)
        self._random = np.random.RandomState(words.ravel())

    def normal(self, shape):
        return self._random.standard_normal(shape).astype(np.float32)

    def laplace(self, shape):
        return self._random.laplace(0.0, 1.0, shape).astype(np.float32)

    def uniform(self, shape, low=0.0, high=1.0):
        return self._random.uniform(low, high, shape).astype(np.float32)

    def poisson(self, rate):
        return self._random.poisson(rate).astype(np.float32)

    def sqrt(self, x):
        return np.sqrt(x)


def _check_level(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and not negative, got {value}")


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """Noise of one level; a range draws the level once an image."""

    level_8bit: float
    max_level_8bit: float | None = None

    def __post_init__(self):
        _check_level("gaussian level", self.level_8bit)
        if self.max_level_8bit is not None:
            _check_level("gaussian level", self.max_level_8bit)
            if self.max_level_8bit < self.level_8bit:
                raise ValueError(
                    "a gaussian range runs from low to high, got "
                    f"{self.level_8bit:g}-{self.max_level_8bit:g}"
                )

    def __call__(self, clean, draw: Draw):
        return clean + self.draw_sigma(draw) * draw.normal(clean.shape)

    def draw_sigma(self, draw: Draw):
        """The level of an image, on the scale [0, 1]."""
        sigma = self.level_8bit / 255
        if self.max_level_8bit is None:
            return sigma
        return draw.uniform((), sigma, self.max_level_8bit / 255)


@dataclasses.dataclass(frozen=True)
class Shared:
    """Gaussian noise that channels share, as in film grain and in toned grey scans.

    How much of it is shared is drawn once an image, from nothing to everything.
    """

    gaussian: Gaussian

    def __call__(self, clean, draw: Draw):
        sigma, share = self.gaussian.draw_sigma(draw), draw.uniform((), 0, 1)
        own = draw.sqrt(1 - share) * draw.normal(clean.shape)
        common = draw.sqrt(share) * draw.normal((*clean.shape[:2], 1))
        return clean + sigma * (own + common)


@dataclasses.dataclass(frozen=True)
class Speckle:
    """Noise whose spread grows with the square root of the signal."""

    level_8bit: float
    base: str = "normal"

    def __post_init__(self):
        _check_level("speckle level", self.level_8bit)

    def __call__(self, clean, draw: Draw):
        n = getattr(draw, self.base)(clean.shape)
        return clean + draw.sqrt((self.level_8bit / 255) ** 2 * clean) * n


@dataclasses.dataclass(frozen=True)
class Poisson:
    """Photon counts of 256 levels, their deviation enlarged by `alpha`."""

    alpha: float

    def __post_init__(self):
        _check_level("poisson alpha", self.alpha)

    def __call__(self, clean, draw: Draw):
        return clean + self.term(clean, draw)

    def term(self, clean, draw: Draw):
        """The noise alone."""
        return self.alpha * (draw.poisson(256 * clean) / 256 - clean)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """The noise terms of the strongest speckle and the strongest poisson."""

    def __call__(self, clean, draw: Draw):
        speckled = Speckle(MIXTURE_SPECKLE_8BIT)(clean, draw)
        return speckled + Poisson(MIXTURE_POISSON).term(clean, draw)


@dataclasses.dataclass(frozen=True)
class Variant:
    """Speckle whose level follows one of the three maps, the same for R, G, B."""

    number: int
    base: str = "normal"

    def __call__(self, clean, draw: Draw):
        height, width = clean.shape[:2]
        low, high = VARIANT_RANGE_8BIT
        level_map = maps.level_map(self.number, height, width)[..., None]
        phi = (low + (high - low) * level_map) / 255
        n = getattr(draw, self.base)(clean.shape)
        return clean + draw.sqrt(phi**2 * clean) * n


Law = (
    Gaussian
    | Shared
    | Speckle
    | Poisson
    | Mixture
    | Variant
    | isp.Isp
    | combined.OneOf
    | combined.Compressed
    | combined.Enlarged
    | combined.Smoothed
)


# The names that `parse` knows: laws without a level, and makers from the text after
# the colon.
FIXED: dict[str, Law] = {
    "mixture": Mixture(),
    **{f"variant{i}": Variant(i) for i in (1, 2, 3)},
    **{f"variant{i}*": Variant(i, "laplace") for i in (1, 2, 3)},
    "isp": isp.Isp(),
    "isp_wide": isp.Isp(least_shot=1e-6),
}
MAKERS: dict[str, Callable[[str], Law]] = {
    "gaussian": lambda text: Gaussian(*_numbers(text)),
    "shared": lambda text: Shared(Gaussian(*_numbers(text))),
    "speckle": lambda text: Speckle(float(text)),
    "speckle*": lambda text: Speckle(float(text), "laplace"),
    "poisson": lambda text: Poisson(float(text)),
    "isp": lambda text: isp.Isp(curves=text),
    "jpeg": lambda text: combined.Compressed(parse(text)),
    "enlarged": lambda text: combined.Enlarged(parse(text)),
    "smoothed": lambda text: combined.Smoothed(parse(text)),
    "one_of": lambda text: combined.OneOf(
        tuple(parse(part) for part in text.split("+"))
    ),
}


def _numbers(text: str) -> list[float]:
    try:
        return [float(text)]  # first as a whole: "-5" is a number, not a range
    except ValueError:
        return [float(part) for part in text.split("-", 1)]


def parse(name: str) -> Law:
    """Returns the law of a name such as `gaussian:5-20`, `speckle*:60`, `mixture`."""
    head, colon, text = name.partition(":")
    if not colon and head in FIXED:
        return FIXED[head]
    if not colon or head not in MAKERS:
        raise ValueError(f"unknown noise {name!r}; {_list_names()}")
    try:
        return MAKERS[head](text)
    except ValueError as error:
        raise ValueError(f"noise {name!r}: {error}; {_list_names()}") from None


def _list_names() -> str:
    names = [*(f"{head}:..." for head in MAKERS), *FIXED]
    return f"choose from {', '.join(names)}; docs/data.md has the levels"


def sample(
    law: Law, clean: np.ndarray, *, seed: int | tuple[int, ...], clip: bool = True
) -> np.ndarray:
    """Returns `clean` [H, W, C] float32 in [0, 1] with noise, float32.

    `seed` may be a tuple such as (seed, index of the image in its set).
    """
    if clean.dtype != np.float32 or clean.ndim != 3 or not clean.size:
        raise ValueError(f"need float32 [H, W, C], got {clean.dtype} {clean.shape}")
    if not (clean.min() >= 0 and clean.max() <= 1):  # NaN fails this as well
        raise ValueError(f"need [0, 1], got [{clean.min():g}, {clean.max():g}]")
    noisy = law(clean, NumpyDraw(seed))
    return np.clip(noisy, 0, 1) if clip else noisy


def sample_for_test(
    name: str, clean: np.ndarray, *, seed: int | tuple[int, ...]
) -> np.ndarray:
    """Returns `clean` with the noise of a name as in the tables.

    Gaussian noise is as it is in training, unclipped; all others are clipped.
    """
    law = parse(name)
    return sample(law, clean, seed=seed, clip=not isinstance(law, Gaussian))
