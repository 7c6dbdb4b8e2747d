"""Makes any network equivariant to an image's global mean and standard deviation."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops, tokens
from sevnet_jax.models.base import Network


class NormalizationWrapper(Network):
    """f(x) = s g((x - m) / s) + m, with each image's mean m and deviation s. Degree 1.

    For whatever module g: f(ax + b) = a f(x) + b for all a > 0 and b, exactly if b = 0
    and a is a power of two. A flat image has no deviation and stays as it is. The law
    is of the image as a whole: a level of noise that varies over it still does so
    before g.

    A network that was trained without a wrapper is used to another `mean` and
    `deviation` than 0 and 1: it is given images of these.

    After Saied & Fleuret (ICML 2026).
    """

    inner: nn.Module  # [B, H, W, C] -> the same
    mean: float = 0.0
    deviation: float = 1.0

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        ops.check_images(x)
        signal = tokens.widen(x)
        mean = ops.image_mean(x)
        centred = signal - mean
        variance = ops.image_mean(jnp.square(centred))
        flat = variance == 0
        deviation = jnp.sqrt(jnp.where(flat, 1, variance))
        restored = self._run(self.inner, (centred / deviation).astype(x.dtype))
        restored = tokens.widen(restored) * deviation + mean
        return jnp.where(flat, signal, restored).astype(x.dtype)

    def _run(self, inner: Callable[[Array], Array], x: Array) -> Array:
        """What the network makes of a standard image, which is a standard image."""
        if (self.mean, self.deviation) == (0, 1):
            return inner(x)
        restored = inner(x * self.deviation + self.mean)
        return (restored - self.mean) / self.deviation

    def unwrap(self, variables: Any) -> tuple[nn.Module, Any]:
        """Returns the module inside and its variables."""
        return self.inner, {name: values["inner"] for name, values in variables.items()}

    told = ("centre", "spread")
    keeps_the_law = True

    def restore_tile(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        if not isinstance(self.inner, Network):
            return self._run(self.inner, x)
        if "centre" in self.inner.told:  # whose tiles are freed of their centre
            return self.inner.restore_tile(x * self.deviation) / self.deviation
        return self._run(self.inner.restore_tile, x)

    def with_fields(self, **fields: Any) -> "NormalizationWrapper":
        """Returns the same network, the one inside with other fields."""
        return self.clone(inner=self.inner.with_fields(**fields))

    # What the network inside says; of a module of nobody's, what is safe to say.

    @property
    def channels(self) -> int:
        return getattr(self.inner, "channels", 3)

    @property
    def multiple(self) -> int:
        return getattr(self.inner, "multiple", 1)

    @property
    def reach(self) -> int | None:
        return getattr(self.inner, "reach", None)
