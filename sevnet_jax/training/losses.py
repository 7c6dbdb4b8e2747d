"""What training makes small. A new loss is a function and a line in LOSSES."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

CHARBONNIER_WIDTH = 1e-3  # of the range [0, 1]: rounds the corner of |x|


def l1(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """The mean absolute difference. Degree 1."""
    _check(restored, clean)
    return jnp.mean(jnp.abs(restored - clean))


def l2(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """The mean squared difference. Degree 2."""
    _check(restored, clean)
    return jnp.mean(jnp.square(restored - clean))


def charbonnier(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """A smooth absolute difference: quadratic within CHARBONNIER_WIDTH of zero."""
    _check(restored, clean)
    squares = jnp.square(restored - clean)
    return jnp.mean(jnp.sqrt(squares + CHARBONNIER_WIDTH**2))


LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "l1": l1,
    "l2": l2,
    "charbonnier": charbonnier,
}


def _check(restored: Array, clean: Array) -> None:
    if restored.shape != clean.shape:  # subtraction would broadcast
        raise ValueError(f"shapes differ: {restored.shape} and {clean.shape}")
