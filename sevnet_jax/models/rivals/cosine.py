"""Cosine attention with positions from an MLP (Swin v2), as GRL uses it."""

import math

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import tokens
from sevnet_jax.models.rivals.attention import (
    Sides,
    attend,
    cut_windows,
    look_up,
    mask_between,
    roll,
    shift_labels,
    split_heads,
)
from sevnet_jax.models.rivals.common import SwinDense

SHARPEST = math.log(100)  # logarithm of what cosines are multiplied by, at most
POSITION_HIDDEN = 512
POSITION_MOST = 16.0  # that a position adds to a logit


class CosineAttention(nn.Module):
    """Attention by cosine, with positions from an MLP. Degree 1, in the value.

    Pixels of windows meet each other, or their anchors, pixels of a map that is
    `factor` times smaller. Labels say which of them were neighbours.
    """

    heads: int
    queries: Sides  # of a window of them
    keys: Sides
    factor: int = 1

    @nn.compact
    def __call__(
        self, query: Array, key: Array, value: Array, *labels: np.ndarray
    ) -> Array:  # [B, n, Nq, C], [B, n, Nk, C] twice -> [B, n, Nq, C]
        start = nn.initializers.constant(math.log(10))
        scale = self.param("logit_scale", start, (self.heads,), jnp.float32)
        scale = jnp.exp(jnp.minimum(scale, SHARPEST)).reshape(1, 1, 1, -1, 1)
        window = max(self.queries, self.keys)  # the other one may be its anchors
        table = jnp.asarray(make_positions(window, self.factor))
        table = nn.relu(SwinDense(POSITION_HIDDEN, name="cpb_mlp.0")(table))
        table = SwinDense(self.heads, bias=False, name="cpb_mlp.2")(table)
        index = index_positions(self.queries, self.keys)
        terms = [look_up(POSITION_MOST * nn.sigmoid(table), index)]
        if any((cut != cut[:, :1]).any() for cut in labels):  # else all are neighbours
            terms.append(mask_between(*labels))
        query, key, value = (
            split_heads(part, self.heads) for part in (query, key, value)
        )
        query = normalize(query)
        query *= scale.astype(query.dtype)
        return attend(query, normalize(key), value, *terms)


def make_positions(window: Sides, factor: int) -> np.ndarray:  # -> [T, 2]
    """Differences between places of a window and of its anchors, squeezed."""
    axes = []
    for side in window:
        anchors = side // factor
        margin = (side - anchors) // 2
        most = side - 1 - margin
        steps = np.arange(1 - anchors - margin, most + 1)
        axes.append(np.sign(steps) * np.log2(8 * np.abs(steps) / most + 1) / 3)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    return grid.reshape(-1, 2).astype(np.float32)


def index_positions(queries: Sides, keys: Sides) -> Array:  # -> [Nq, Nk]
    """`attention.relative_index`, but subtracted inside the program.

    Of stripes it is large, and each block has two. Places of anchors count as those of
    pixels, though they are further apart: so does the original.
    """
    step = queries[1] + keys[1] - 1
    first, second = (
        jnp.asarray(np.add.outer(step * np.arange(h), np.arange(w)).ravel(), jnp.int32)
        for h, w in (queries, keys)
    )
    return first[:, None] - second[None] + ((keys[0] - 1) * step + keys[1] - 1)


def normalize(x: Array) -> Array:  # [..., C] -> [..., C]
    """Vectors of length 1, in float32 or wider. Degree 0, but for vectors near 0."""
    x = tokens.widen(x)
    energy = jnp.square(x).sum(-1, keepdims=True)
    return x * lax.rsqrt(jnp.maximum(energy, 1e-24))


def cut_labelled(
    x: Array, window: Sides, shift: Sides
) -> tuple[Array, np.ndarray]:  # [B, H, W, C] -> [B, n, N, C], [n, N]
    """Shifted windows, and labels of their pixels."""
    labels = shift_labels(x.shape[1:3], window, shift)
    rolled = roll(x, (-shift[0], -shift[1]))
    return cut_windows(rolled, window), labels
