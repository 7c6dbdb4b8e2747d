"""CRWKV (arXiv 2505.02705, IJCAI 2025): means over all pixels in linear time."""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import ops, tokens
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.common import (
    Conv,
    Dense,
    LayerNorm,
    check_lengths,
    crop,
    gelu,
    halves,
    spread,
)
from sevnet_jax.models.rivals.frames import run_restormer_frame

# Rows down and columns right that content moves, by group of channels: four groups of
# an eighth, eight of a sixteenth. The released program takes columns for rows.
SHIFTS = {
    "released": ((0, 1), (0, -1)) * 2 + ((0, 2), (0, -2)) * 2 + ((1, 1), (-1, -1)) * 2,
    "intended": (
        *((0, 1), (0, -1), (1, 0), (-1, 0)),
        *((0, 2), (0, -2), (2, 0), (-2, 0)),
        *((1, 1), (-1, -1), (1, -1), (-1, 1)),
    ),
}
FARTHEST = 2  # pixels
SLOPE = 0.1  # of what is negative in a spectrum

Linear = functools.partial(Dense, bias=False)


def shift_tokens(x: Array, kind: str) -> Array:  # [B, H, W, C] -> [B, H, W, C]
    """Channels moved by groups in their directions, zeros coming in. Degree 1."""
    if kind not in SHIFTS:
        raise ValueError(f"shift is one of {', '.join(SHIFTS)}, got {kind!r}")
    h, w, c = x.shape[1:]
    bounds = [0, c // 8, c // 4, max(c // 4, 3 * (c // 8))]
    for start in (c // 2, c // 2 + c // 4):
        bounds += [start + i * c // 16 for i in range(4)]
    sides = (FARTHEST, FARTHEST)
    padded = jnp.pad(x, ((0, 0), sides, sides, (0, 0)))
    groups = []
    for start, stop, move in zip(bounds, [*bounds[1:], c], SHIFTS[kind], strict=True):
        top, left = (FARTHEST - step for step in move)
        groups.append(padded[:, top : top + h, left : left + w, start:stop])
    return jnp.concatenate(groups, axis=-1)


def average_tokens(
    key: Array, value: Array, decay: Array, first: Array
) -> Array:  # [B, T, C] twice, [C] twice -> [B, T, C]
    """For each token a mean of all values, "WKV". Degree 1 in `value`, none in `key`.

    In the mean of token t, token i weighs exp(key_i - (|t - i| - 1) decay / T), and t
    itself exp(key_t + first / T). The formula: the GPU program of Vision-RWKV departs
    from it by something that vanishes with 1 / T.
    """
    dtype = value.dtype
    key, value, decay, first = map(tokens.widen, (key, value, decay, first))
    count = key.shape[1]
    # Around the middle, so that exponents are small.
    place = jnp.asarray(np.arange(count) / count - 0.5, key.dtype).reshape(1, -1, 1)
    slope, step = spread(decay, key) * place, spread(decay, key) / count
    key -= lax.stop_gradient(key.max(1, keepdims=True))  # cancels in the mean
    both = jnp.stack([value, jnp.ones_like(value)])  # [2, B, T, C]

    def weigh(logits: Array, what: Array) -> Array:
        return jnp.exp(logits)[None] * what

    before = lax.cumsum(weigh(key + slope, both), 2)[:, :, :-1]
    before = jnp.pad(before, ((0, 0), (0, 0), (1, 0), (0, 0)))
    after = lax.cumsum(weigh(key - slope, both), 2, reverse=True)[:, :, 1:]
    after = jnp.pad(after, ((0, 0), (0, 0), (0, 1), (0, 0)))
    total = weigh(step - slope, before) + weigh(step + slope, after)
    total += weigh(key + spread(first, key) / count, both)
    return (total[0] / total[1]).astype(dtype)


class Mix(nn.Module):
    """What two mixes share. `block` counts the `blocks` of a stage, for the start."""

    shift: str
    block: int
    blocks: int

    def mix(
        self, name: str, x: Array, moved: Array, power: float = 1, more: float = 0
    ) -> Array:  # [B, H, W, C] twice -> [B, H, W, C]
        """`x` mixed with what moved, channel by channel, by a parameter. Degree 1."""
        c = x.shape[-1]
        start = (np.arange(c) / c) ** (power * (1 - self.block / self.blocks)) + more
        share = self.param(name, nn.initializers.constant(start), (c,), jnp.float32)
        share = spread(share, x)
        return x * share + moved * (1 - share)


class SpatialMix(Mix):
    """A gated mean over all pixels, nearer ones weighing more or less. No degree."""

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        b, h, w, c = x.shape
        channel, depth = np.arange(c), self.block / max(self.blocks - 1, 1)
        ramp = 8 * (channel / max(c - 1, 1)) ** (0.7 + 1.3 * depth) - 5
        wave = math.log(0.3) + 0.5 * ((channel + 1) % 3 - 1)
        decay, first = (
            self.param(name, nn.initializers.constant(start), (c,), jnp.float32)
            for name, start in (("spatial_decay", ramp), ("spatial_first", wave))
        )
        moved = shift_tokens(x, self.shift)
        key = Linear(c, name="key")(self.mix("spatial_mix_k", x, moved))
        mixed = self.mix("spatial_mix_v", x, moved, more=0.3 * depth)
        value = Linear(c, name="value")(mixed)
        mixed = self.mix("spatial_mix_r", x, moved, power=0.5)
        gate = nn.sigmoid(Linear(c, name="receptance")(mixed))
        rows = (b, h * w, c)
        y = average_tokens(key.reshape(rows), value.reshape(rows), decay, first)
        return Linear(c, name="output")(gate * y.reshape(x.shape))


class FrequencyMix(nn.Module):
    """`x` times what a map makes of its spectrum, normalised. No degree."""

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        spectrum = jnp.fft.rfft2(tokens.widen(x), axes=(1, 2), norm="ortho")
        y = jnp.concatenate([spectrum.real, spectrum.imag], axis=-1).astype(x.dtype)
        y = nn.leaky_relu(Linear(2 * x.shape[-1], name="weighted")(y), SLOPE)
        spectrum = lax.complex(*halves(tokens.widen(y)))
        y = jnp.fft.irfft2(spectrum, x.shape[1:3], (1, 2), norm="ortho")
        return LayerNorm(name="ln")(gelu(x) * y.astype(x.dtype))


class ChannelMix(Mix):
    """A gated map through squares of positive parts. No degree."""

    expansion: int = 4

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c, moved = x.shape[-1], shift_tokens(x, self.shift)
        mixed = self.mix("spatial_mix_k", x, moved)
        y = nn.relu(Linear(self.expansion * c, name="key")(mixed))
        y = Linear(c, name="value")(jnp.square(y))
        mixed = self.mix("spatial_mix_r", x, moved)
        return nn.sigmoid(Linear(c, name="receptance")(mixed)) * y


class Block(nn.Module):
    """`x` plus a mix of pixels, plus one of channels, of normalised x. No degree."""

    pixels: Callable[..., nn.Module]
    channels: Callable[..., nn.Module]

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        ones, shape = nn.initializers.ones, x.shape[-1:]
        y = self.pixels(name="att")(LayerNorm(name="ln1")(x))
        x += y * spread(self.param("gamma1", ones, shape, jnp.float32), x)
        y = self.channels(name="ffn")(LayerNorm(name="ln2")(x))
        return x + y * spread(self.param("gamma2", ones, shape, jnp.float32), x)


class CRWKV(Network):
    """Restored images: the input plus what a U of linear attention makes of it.

    No degree: norms make every branch degree 0 beside a degree-1 stream; keys stand in
    exponents, gates are sigmoids. The released token shift, which has no move along
    columns, takes squares only; here it takes any size.
    """

    channels: int = 3
    width: int = 48
    blocks: tuple[int, ...] = (3, 4, 4, 6)  # per level, finest first; encoder = decoder
    refinement: int = 4
    expansion: int = 4  # of the channel mixes
    shift: str = "released"  # or "intended": as the paper says

    multiple = 8
    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        check_lengths(self, blocks=4)

        def stage(name: str, level: int, y: Array) -> Array:
            count = self.refinement if name == "refinement" else self.blocks[level]
            for block in range(count):
                place = (self.shift, block, count)
                space = functools.partial(SpatialMix, *place)
                y = Block(
                    FrequencyMix if name == "latent" else space,
                    functools.partial(ChannelMix, *place, self.expansion),
                    name=f"{name}.{block}",
                )(y)
            return y

        padded = ops.pad_to_multiple(x, self.multiple)
        y = Conv(self.width, name="patch_embed")(padded)
        y = run_restormer_frame(y, stage, bias=True)
        return crop(padded + Conv(self.channels, name="output")(y), like=x)


official.declare(
    "crwkv",
    CRWKV,
    fields={
        "inp_channels": "channels",
        "dim": "width",
        "num_blocks": "blocks",
        "num_refinement_blocks": "refinement",
        "hidden_rate": "expansion",
    },
    same={"out_channels": "inp_channels"},
    fixed={"shift_pixel": 1, "key_norm": False, "leaky_slope": SLOPE, "ln_eps": 1e-5},
    unused=("init_mode",),
    levels_vary=False,
)

register("crwkv", CRWKV, family="rival")
register("crwkv_xs", CRWKV, family="rival", width=12, blocks=(1, 2, 3, 4), refinement=2)
