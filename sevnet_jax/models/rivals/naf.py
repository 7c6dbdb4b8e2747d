"""NAFNet's block, which CGNet and MHNet use too, and its local pooling at test time."""

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import tokens
from sevnet_jax.models.rivals.common import Conv, LayerNorm, halves, spread

EPS = 1e-6  # of every norm around these blocks


class NAFBlock(nn.Module):
    """`x` plus a gated, pooled map, plus a gated map, both of normalised x. No degree.

    Starts as the identity. `pool` is the side of the box that is pooled over; None is
    the whole image.
    """

    pool: int | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c = x.shape[-1]
        y = LayerNorm(EPS, name="norm1")(x)
        y = Conv(2 * c, 1, name="conv1")(y)
        y = gate(Conv(2 * c, groups=2 * c, name="conv2")(y))
        y *= Conv(c, 1, name="sca.1")(pool_mean(y, self.pool))
        y = Conv(c, 1, name="conv3")(y)
        return add_gated_map(self, x + scale_channels(self, "beta", y))


def add_gated_map(module: nn.Module, x: Array) -> Array:  # [..., C] -> [..., C]
    """`x` plus a gated map of normalised x: the second half of a block. No degree."""
    c = x.shape[-1]
    y = LayerNorm(EPS, name="norm2")(x)
    y = gate(Conv(2 * c, 1, name="conv4")(y))
    y = Conv(c, 1, name="conv5")(y)
    return x + scale_channels(module, "gamma", y)


def gate(x: Array) -> Array:  # [..., 2C] -> [..., C]
    """One half of the channels times the other. Degree 2."""
    first, second = halves(x)
    return first * second


def scale_channels(module: nn.Module, name: str, x: Array) -> Array:  # as x
    """`x` times a vector of parameters of `module` that start at 0. Degree 1."""
    zeros = nn.initializers.zeros
    return x * spread(module.param(name, zeros, (x.shape[-1],), jnp.float32), x)


def pool_mean(
    x: Array, side: int | None = None
) -> Array:  # [B, H, W, C] -> [B, 1, 1, C] or [B, H, W, C]
    """The mean over all pixels, or around each over a box of `side` x `side`. Degree 1.

    Boxes stay inside the image: at its border they are those of the nearest pixel whose
    box fits (TLC). An image inside one box has one mean.
    """
    wide = tokens.widen(x)
    height, width = x.shape[1:3]
    if side is None or (side >= height and side >= width):
        return wide.mean((1, 2), keepdims=True).astype(x.dtype)
    for axis in (1, 2):
        wide = _slide_mean(wide, min(side, x.shape[axis]), axis)
    missing = [(0, 0)] + [
        (lack // 2, lack - lack // 2)
        for lack in (height - wide.shape[1], width - wide.shape[2])
    ]
    return jnp.pad(wide, [*missing, (0, 0)], mode="edge").astype(x.dtype)


def _slide_mean(x: Array, length: int, axis: int) -> Array:
    """Means of `length` neighbours along an axis, where all of them are there.

    By differences of running sums, one axis after the other: over both axes at once the
    sums outgrow the digits of float32.
    """
    sums = jnp.cumsum(x, axis)
    sums = jnp.pad(sums, [(int(i == axis), 0) for i in range(x.ndim)])
    count = x.shape[axis] - length + 1
    ends = jnp.arange(count) + length
    starts = jnp.arange(count)
    return (sums.take(ends, axis) - sums.take(starts, axis)) / length


def find_pools(train_size: int | None, levels: int) -> tuple[int | None, ...]:
    """Sides of the boxes at each level, finest first, and at the one below them all.

    For a network trained on patches of `train_size`: one and a half times their share
    of the level. None: no boxes.
    """
    if train_size is None:
        return (None,) * (levels + 1)
    padded = train_size + -train_size % 2**levels
    base = train_size * 3 // 2
    return tuple((padded >> level) * base // train_size for level in range(levels + 1))
