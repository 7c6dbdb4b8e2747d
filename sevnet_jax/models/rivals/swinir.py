"""SwinIR, of Liang et al., ICCV Workshops 2021: attention in shifted windows."""

import functools
from collections.abc import Callable, Iterable, Sequence

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.attention import WindowAttention
from sevnet_jax.models.rivals.common import (
    Conv,
    LayerNorm,
    Mlp,
    SwinDense,
    check_lengths,
    crop,
    spread,
)

Plan = Callable[..., nn.Module]  # a block that only lacks its name
COLOUR_MEAN = (0.4488, 0.4371, 0.4040)  # a constant of the originals; grey: 0


class SwinBlock(nn.Module):
    """`x` plus window attention, plus a small MLP, both of normalised x. No degree."""

    heads: int
    window: int
    shift: int
    expansion: float

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = LayerNorm(name="norm1")(x)
        x += WindowAttention(
            self.heads, self.window, self.shift, dense=SwinDense, name="attn"
        )(y)
        hidden = int(self.expansion * x.shape[-1])
        y = LayerNorm(name="norm2")(x)
        return x + Mlp(hidden, SwinDense, name="mlp")(y)


class ResidualStage(nn.Module):
    """`x` plus a convolution of what the blocks make of it. No degree."""

    blocks: tuple[Plan, ...]
    group: str  # what their names begin with

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = x
        for number, block in enumerate(self.blocks):
            y = block(name=f"{self.group}blocks.{number}")(y)
        return x + Conv(x.shape[-1], name="conv")(y)


def run_flat_frame(
    x: Array,
    width: int,
    stages: Iterable[Sequence[Plan]],
    norms: tuple[str, str],
    group: str = "",
) -> Array:  # [B, H, W, C] -> [B, H, W, C]
    """The image plus what stages of blocks, all at full size, make of it. No degree.

    A constant mean is taken out, and the stages see normalised features. GRL has this
    frame too, with other names: of the norms before and after the stages, and of the
    `group` inside each that holds the blocks.
    """
    means = COLOUR_MEAN if x.shape[-1] == 3 else (0.0,) * x.shape[-1]
    mean = spread(jnp.asarray(means), x)
    centred = x - mean
    head = Conv(width, name="conv_first")(centred)
    y = LayerNorm(name=norms[0])(head)
    for number, blocks in enumerate(stages):
        y = ResidualStage(tuple(blocks), group, name=f"layers.{number}")(y)
    y = LayerNorm(name=norms[1])(y)
    y = Conv(width, name="conv_after_body")(y) + head
    return centred + Conv(x.shape[-1], name="conv_last")(y) + mean


class SwinIR(Network):
    """Restored images: the input plus what stages of window attention make of it.

    No degree: a norm right behind the first convolution makes all of the body degree 0
    beside a degree-1 stream. The original's stochastic depth is left out.
    """

    channels: int = 3
    width: int = 96
    blocks: tuple[int, ...] = (6, 6, 6, 6)  # per stage
    heads: tuple[int, ...] = (6, 6, 6, 6)
    window: int = 8
    expansion: float = 4.0  # of the MLPs

    @property
    def multiple(self) -> int:
        return self.window

    reach = None  # finite, but as far as all windows and convolutions in a row
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        check_lengths(self, blocks=len(self.blocks), heads=len(self.blocks))
        stages = [
            [self.plan_block(number, heads) for number in range(count)]
            for count, heads in zip(self.blocks, self.heads, strict=True)
        ]
        padded = ops.pad_to_multiple(x, self.multiple)
        names = ("patch_embed.norm", "norm")
        y = run_flat_frame(padded, self.width, stages, names, "residual_group.")
        return crop(y, like=x)

    def plan_block(self, number: int, heads: int) -> Plan:
        """The block of that number in a stage."""
        shift = self.window // 2 if number % 2 else 0
        return functools.partial(SwinBlock, heads, self.window, shift, self.expansion)


official.declare(
    "swinir",
    SwinIR,
    fields={
        "in_chans": "channels",
        "embed_dim": "width",
        "depths": "blocks",
        "num_heads": "heads",
        "window_size": "window",
        "mlp_ratio": "expansion",
    },
    fixed={
        "upscale": 1,
        "patch_size": 1,
        "qkv_bias": True,
        "qk_scale": None,
        "ape": False,
        "patch_norm": True,
        "img_range": 1.0,
        "upsampler": "",
        "resi_connection": "1conv",
    },
    # The size of training patches would matter only if no larger than a window.
    unused=("img_size", "drop_rate", "attn_drop_rate", "drop_path_rate"),
    ignored=("*.relative_position_index", "*.attn_mask"),
)

register("swinir", SwinIR, family="rival")
register(  # one network per noise level
    "swinir_gaussian",
    SwinIR,
    family="rival",
    width=180,
    blocks=(6,) * 6,
    heads=(6,) * 6,
    expansion=2.0,
)
register(
    "swinir_xs",
    SwinIR,
    family="rival",
    width=24,
    blocks=(4, 2),
    heads=(2, 2),
    expansion=2.0,
)
