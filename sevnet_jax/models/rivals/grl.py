"""GRL, of Li et al., CVPR 2023: attention in windows and, by anchors, in stripes."""

import functools
import math
from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops, tokens
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import attention, common, official
from sevnet_jax.models.rivals.attention import Sides
from sevnet_jax.models.rivals.common import Conv, LayerNorm, SwinDense
from sevnet_jax.models.rivals.cosine import CosineAttention, cut_labelled
from sevnet_jax.models.rivals.naf import pool_mean
from sevnet_jax.models.rivals.swinir import Plan, run_flat_frame


def divide(sides: Sides, factor: int) -> Sides:
    """Both of them, rounded down."""
    return sides[0] // factor, sides[1] // factor


class MixedAttention(nn.Module):
    """Half of the channels attend in windows, half in stripes. Degree 1 without bias.

    In a stripe, anchors take from all pixels, then all pixels take from the anchors.
    """

    heads: Sides  # of windows, of stripes
    window: Sides
    shift: Sides
    stripe: Sides
    stripe_shift: Sides
    factor: int  # side of the square whose mean an anchor is

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        b, h, w, c = x.shape
        qkv = common.halves(SwinDense(3 * c, name="qkv.body")(x))
        squares = (b, h // self.factor, self.factor, w // self.factor, self.factor, c)
        means = tokens.widen(x).reshape(squares).mean((2, 4)).astype(x.dtype)
        anchors = SwinDense(c // 2, name="anchor.body.0.reduction")(means)
        y = [self.attend_in_windows(qkv[0]), self.attend_in_stripes(qkv[1], anchors)]
        return SwinDense(c, name="proj")(jnp.concatenate(y, axis=-1))

    def attend_in_windows(self, qkv: Array) -> Array:  # [B, H, W, 3C] -> [B, H, W, C]
        parts, labels = cut_labelled(qkv, self.window, self.shift)
        attend = CosineAttention(
            self.heads[0], self.window, self.window, name="window_attn.attn_transform"
        )
        query, key, value = jnp.split(parts, 3, -1)
        y = attend(query, key, value, labels, labels)
        y = attention.join_windows(y, self.window, qkv.shape[1:3])
        return attention.roll(y, self.shift)

    def attend_in_stripes(
        self, qkv: Array, anchors: Array
    ) -> Array:  # [B, H, W, 3C], [B, h, w, C] -> [B, H, W, C]
        heads, stripe, factor = self.heads[1], self.stripe, self.factor
        small = divide(stripe, factor)
        parts, labels = cut_labelled(qkv, stripe, self.stripe_shift)
        anchors, marks = cut_labelled(anchors, small, divide(self.stripe_shift, factor))
        query, key, value = jnp.split(parts, 3, -1)
        name = "stripe_attn.attn_transform"
        take = CosineAttention(heads, small, stripe, factor, name=f"{name}1")
        give = CosineAttention(heads, stripe, small, factor, name=f"{name}2")
        y = take(anchors, key, value, marks, labels)
        y = give(query, anchors, y, labels, marks)
        y = attention.join_windows(y, stripe, qkv.shape[1:3])
        return attention.roll(y, self.stripe_shift)


class LocalConnection(nn.Module):
    """Two convolutions, gated by their mean over the image. No degree."""

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c = x.shape[-1]
        y = common.gelu(Conv(c // 4, name="cab.0")(x))
        y = Conv(c, name="cab.2")(y)
        gate = nn.relu(Conv(c // 18, 1, name="cab.3.attention.1")(pool_mean(y)))
        return y * nn.sigmoid(Conv(c, 1, name="cab.3.attention.3")(gate))


class Block(nn.Module):
    """`x` plus normalised attention, plus a normalised MLP of it. No degree."""

    attend: Plan
    expansion: float
    local: bool

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = LayerNorm(name="norm1")(self.attend(name="attn")(x))
        if self.local:
            y += LocalConnection(name="conv")(x)
        x += y
        hidden = int(self.expansion * x.shape[-1])
        y = common.Mlp(hidden, SwinDense, name="mlp")(x)
        return x + LayerNorm(name="norm2")(y)


class GRL(Network):
    """Restored images: the input plus what stages of mixed attention make of it.

    No degree: a norm right behind the first convolution makes all of the body degree 0
    beside a degree-1 stream. The original's stochastic depth is left out.
    """

    channels: int = 3
    width: int = 96
    blocks: tuple[int, ...] = (6,) * 6  # per stage
    window_heads: tuple[int, ...] = (3,) * 6
    stripe_heads: tuple[int, ...] = (3,) * 6
    window: int = 8
    stripe: Sides = (8, 8)  # turned in every other block
    shifted: bool = False  # stripes, in every other pair of blocks
    anchor: int = 1  # side of the squares that stripes attend by
    expansion: float = 4.0  # of the MLPs
    local: bool = False  # convolutions beside the attention

    @property
    def multiple(self) -> int:
        return math.lcm(self.window, *self.stripe)

    reach = None  # finite only if not local, and then large
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        common.check_lengths(
            self,
            blocks=len(self.blocks),
            window_heads=len(self.blocks),
            stripe_heads=len(self.blocks),
            stripe=2,
        )
        short = any(-side % self.multiple >= side for side in x.shape[1:3])
        pad = common.pad_zeros if short else ops.pad_to_multiple
        stages = [
            [self.plan_block(number, heads) for number in range(count)]
            for count, *heads in zip(
                self.blocks, self.window_heads, self.stripe_heads, strict=True
            )
        ]
        names = ("norm_start", "norm_end")
        y = run_flat_frame(pad(x, self.multiple), self.width, stages, names)
        return common.crop(y, like=x)

    def plan_block(self, number: int, heads: Sequence[int]) -> Plan:
        """The block of that number in a stage."""
        window = (self.window, self.window)
        stripe = self.stripe[::-1] if number % 2 else self.stripe
        moves = self.shifted and number % 4 >= 2
        attend = functools.partial(
            MixedAttention,
            tuple(heads),
            window,
            (0, 0) if number % 2 else divide(window, 2),
            stripe,
            divide(stripe, 2) if moves else (0, 0),
            self.anchor,
        )
        return functools.partial(Block, attend, self.expansion, self.local)


official.declare(
    "grl",
    GRL,
    fields={
        "in_channels": "channels",
        "embed_dim": "width",
        "depths": "blocks",
        "num_heads_window": "window_heads",
        "num_heads_stripe": "stripe_heads",
        "window_size": "window",
        "stripe_size": "stripe",
        "stripe_shift": "shifted",
        "mlp_ratio": "expansion",
        "anchor_window_down_factor": "anchor",
        "local_connection": "local",
    },
    same={"out_channels": "in_channels"},
    fixed={
        "upscale": 1,
        "img_range": 1.0,
        "upsampler": "",
        "qkv_bias": True,
        "qkv_proj_type": "linear",
        "anchor_proj_type": "avgpool",
        "anchor_one_stage": True,
        "out_proj_type": "linear",
        "pretrained_window_size": [0, 0],
        "pretrained_stripe_size": [0, 0],
        "stripe_groups": [None, None],
        "conv_type": "1conv",
        "init_method": "n",
        "euclidean_dist": False,
    },
    unused=("img_size", "drop_rate", "attn_drop_rate", "drop_path_rate"),
    ignored=("table_*", "index_*", "mask_*"),
    prefixes=("model.",),
)

register("grl", GRL, family="rival")  # its stripes are windows
register(  # one network per noise level
    "grl_gaussian",
    GRL,
    family="rival",
    width=180,
    blocks=(4, 4, 8, 8, 8, 4, 4),
    window_heads=(3,) * 7,
    stripe_heads=(3,) * 7,
    window=32,
    stripe=(64, 128),
    shifted=True,
    anchor=2,
    expansion=2.0,
    local=True,
)
register(
    "grl_xs",
    GRL,
    family="rival",
    width=24,
    blocks=(4, 2),
    window_heads=(2, 2),
    stripe_heads=(2, 2),
    stripe=(8, 16),
    shifted=True,
    anchor=2,
    expansion=2.0,
)
