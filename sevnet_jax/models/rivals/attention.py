"""Attention that several rivals share: between pixels of a window, between channels.

Position tables and masks depend only on static shapes and are made when a network is
traced. Logits and softmax are in float32.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import tokens
from sevnet_jax.models.rivals.common import Conv, Dense, LayerNorm, gelu, halves

Sides = tuple[int, ...]  # height and width


def cut_windows(x: Array, window: Sides) -> Array:  # [B, H, W, C] -> [B, n, N, C]
    """Windows, and the N pixels in each, row by row. Sides must be multiples."""
    b, h, w, c = x.shape
    rows, columns = window
    x = x.reshape(b, h // rows, rows, w // columns, columns, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, -1, rows * columns, c)


def join_windows(
    x: Array, window: Sides, size: Sides
) -> Array:  # [B, n, N, C] -> [B, H, W, C]
    """The inverse of `cut_windows`, given the height and width."""
    (rows, columns), (h, w) = window, size
    x = x.reshape(x.shape[0], h // rows, w // columns, rows, columns, x.shape[-1])
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(x.shape[0], h, w, x.shape[-1])


def roll(x: Array, shift: Sides) -> Array:  # [B, H, W, C] -> [B, H, W, C]
    """`x` moved down and right, what leaves coming in at the other end."""
    return jnp.roll(x, shift, (1, 2)) if any(shift) else x


def relative_index(queries: Sides, keys: Sides) -> np.ndarray:  # -> [Nq, Nk]
    """Row of a table of positions for each query and key: the query's minus the key's.

    The table holds every difference of rows and of columns, row by row.
    """
    places = [
        np.moveaxis(np.indices(sides), 0, -1).reshape(-1, 2)
        for sides in (queries, keys)
    ]
    difference = places[0][:, None] - places[1][None] + np.array(keys) - 1
    return difference[..., 0] * (queries[1] + keys[1] - 1) + difference[..., 1]


def shift_labels(size: Sides, window: Sides, shift: Sides) -> np.ndarray:  # -> [n, N]
    """Region of each pixel of a map rolled back by `shift`, cut into windows.

    Pixels of one window that were no neighbours before have different labels.
    """
    rows, columns = (
        (np.arange(side) >= side - length).astype(int)
        + (np.arange(side) >= side - move)
        for side, length, move in zip(size, window, shift, strict=True)
    )
    labels = 3 * rows[:, None] + columns[None]
    cut = labels.reshape(
        size[0] // window[0], window[0], size[1] // window[1], window[1]
    )
    return cut.transpose(0, 2, 1, 3).reshape(-1, window[0] * window[1])


def mask_between(
    queries: np.ndarray, keys: np.ndarray
) -> Array:  # -> [1, n, 1, Nq, Nk]
    """0 where labels agree, else -100: what is added to the logits of all heads.

    Compared inside the program, which then need not hold the large result.
    """
    same = jnp.asarray(queries)[:, :, None] == jnp.asarray(keys)[:, None, :]
    return jnp.where(same, 0.0, -100.0).astype(jnp.float32)[None, :, None]


def look_up(
    table: Array, index: np.ndarray | Array
) -> Array:  # [T, h], [q, k] -> [1,1,h,q,k]
    """The table's rows at each query and key, as something to add to logits."""
    return table[index].transpose(2, 0, 1)[None, None]


def split_heads(x: Array, heads: int) -> Array:  # [..., C] -> [..., heads, C / heads]
    """Channels by head, the head the slow index."""
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def multiply_wide(subscripts: str, first: Array, second: Array) -> Array:
    """The einsum of two arrays, summed and kept in float32 or wider."""
    wide = jnp.float64 if first.dtype == jnp.float64 else jnp.float32
    return jnp.einsum(subscripts, first, second, preferred_element_type=wide)


def attend(
    query: Array, key: Array, value: Array, *terms: Array
) -> Array:  # three of [B, n, N, h, d] -> [B, n, Nq, h * d]
    """Softmax attention in windows, `terms` added to the logits [B, n, h, Nq, Nk].

    The query comes scaled.
    """
    logits = multiply_wide("bnqhd,bnkhd->bnhqk", query, key)
    for term in terms:
        logits += term.astype(logits.dtype)
    y = weigh(logits, value)
    return y.reshape(*y.shape[:3], -1)


@jax.custom_vjp
def weigh(
    logits: Array, value: Array
) -> Array:  # [B, n, h, Nq, Nk], [B, n, Nk, h, d] -> [B, n, Nq, h, d]
    """Means of values, weighted by the softmax of logits. Degree 1 in `value`.

    Divides by the weights' sums, and takes the gradient's sums, in the small result:
    the passes through the large logits are what takes time.
    """
    return _weigh_forward(logits, value)[0]


def _weigh_forward(logits, value):
    powers = jnp.exp(logits - _find_largest(logits))
    scale = 1 / powers.sum(-1).swapaxes(2, 3)[..., None]
    y = multiply_wide("bnhqk,bnkhd->bnqhd", powers.astype(value.dtype), value) * scale
    return y.astype(value.dtype), (powers, scale, value, y)


def _weigh_backward(saved, cotangent):
    powers, scale, value, y = saved
    slope = tokens.widen(cotangent) * scale
    along_scale = (slope * y).sum(-1).swapaxes(2, 3)[..., None]
    slope = slope.astype(value.dtype)
    by_powers = multiply_wide("bnqhd,bnkhd->bnhqk", slope, value) - along_scale
    by_value = jnp.einsum("bnhqk,bnqhd->bnkhd", powers.astype(value.dtype), slope)
    return powers * by_powers, by_value


weigh.defvjp(_weigh_forward, _weigh_backward)


def _find_largest(x: Array) -> Array:  # [..., N] -> [..., 1]
    """The largest values, by halves: XLA's CPU compiler compares one by one."""
    while x.shape[-1] % 2 == 0 and x.shape[-1] > 8:
        x = jnp.maximum(*halves(x))
    return x.max(-1, keepdims=True)


class WindowAttention(nn.Module):
    """Self-attention in shifted windows with a table of positions (Swin). No degree.

    The sides of `x` must be multiples of `window`. `offset`, a token for each place in
    a window, is added before all else.
    """

    heads: int
    window: int
    shift: int = 0
    fused: bool = True  # one map "qkv", or "qkv.to_q" and "qkv.to_kv"
    dense: Callable[..., nn.Module] = Dense

    @nn.compact
    def __call__(
        self, x: Array, offset: Array | None = None
    ) -> Array:  # [B, H, W, C], [N, C] -> [B, H, W, C]
        size, window, shift = x.shape[1:3], (self.window,) * 2, (self.shift,) * 2
        channels = x.shape[-1]
        y = cut_windows(roll(x, (-self.shift, -self.shift)), window)
        if offset is not None:
            y += offset.astype(y.dtype)[None, None]
        if self.fused:
            query, key, value = jnp.split(
                self.dense(3 * channels, name="qkv")(y), 3, -1
            )
        else:
            query = self.dense(channels, name="qkv.to_q")(y)
            key, value = halves(self.dense(2 * channels, name="qkv.to_kv")(y))
        query *= 1 / math.sqrt(channels // self.heads)
        table = self.param(
            "relative_position_bias_table",
            nn.initializers.normal(0.02),
            ((2 * self.window - 1) ** 2, self.heads),
            jnp.float32,
        )
        terms = [look_up(table, relative_index(window, window))]
        if self.shift:
            labels = shift_labels(size, window, shift)
            terms.append(mask_between(labels, labels))
        y = attend(*(split_heads(z, self.heads) for z in (query, key, value)), *terms)
        y = self.dense(channels, name="proj")(y)
        return roll(join_windows(y, window, size), shift)


def attend_channels(
    qkv: Array, temperature: Array, weigh: Callable[[Array], Array] = nn.softmax
) -> Array:  # [B, H, W, 3C], [heads] -> [B, H, W, C]
    """Attention between the channels of each head, by their cosine over all pixels.

    Degree 1: the weights, `weigh` of [B, heads, C / heads, C / heads], do not change
    with the scale of `qkv`.
    """
    b, h, w, _ = qkv.shape
    heads = temperature.shape[0]
    query, key, value = (
        split_heads(part.reshape(b, h * w, -1), heads) for part in jnp.split(qkv, 3, -1)
    )

    def invert_norm(z):  # [B, N, h, d] -> [B, h, d], its slope 0 where z is all 0
        energy = jnp.square(tokens.widen(z)).sum(1)
        return lax.rsqrt(jnp.maximum(energy, 1e-24))

    logits = multiply_wide("bnhi,bnhj->bhij", query, key)
    logits *= invert_norm(query)[..., None] * invert_norm(key)[..., None, :]
    temperature = temperature.astype(logits.dtype).reshape(1, heads, 1, 1)
    weights = weigh(logits * temperature)
    y = jnp.einsum("bhij,bnhj->bnhi", weights.astype(value.dtype), value)
    return y.reshape(b, h, w, -1)


class ChannelAttention(nn.Module):
    """Restormer's MDTA: attention between channels. Degree 1 without bias."""

    heads: int
    bias: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c = x.shape[-1]
        y = Conv(3 * c, 1, bias=self.bias, name="qkv")(x)
        y = Conv(3 * c, groups=3 * c, bias=self.bias, name="qkv_dwconv")(y)
        ones = nn.initializers.ones
        temperature = self.param("temperature", ones, (self.heads,), jnp.float32)
        y = attend_channels(y, temperature)
        return Conv(c, 1, bias=self.bias, name="project_out")(y)


class GatedFeedForward(nn.Module):
    """Restormer's GDFN: one half, by GELU, gates the other. No degree."""

    expansion: float = 2.66
    bias: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c, hidden = x.shape[-1], int(x.shape[-1] * self.expansion)
        y = Conv(2 * hidden, 1, bias=self.bias, name="project_in")(x)
        y = Conv(2 * hidden, groups=2 * hidden, bias=self.bias, name="dwconv")(y)
        gate, value = halves(y)
        return Conv(c, 1, bias=self.bias, name="project_out")(gelu(gate) * value)


class ChannelBlock(nn.Module):
    """`x` plus channel attention, plus a gated map, both of normalised x. No degree."""

    heads: int
    expansion: float = 2.66
    bias: bool = False
    centred: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = LayerNorm(centred=self.centred, name="norm1.body")(x)
        x += ChannelAttention(self.heads, self.bias, name="attn")(y)
        y = LayerNorm(centred=self.centred, name="norm2.body")(x)
        return x + GatedFeedForward(self.expansion, self.bias, name="ffn")(y)
