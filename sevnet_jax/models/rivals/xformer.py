"""Xformer, of Zhang et al., ICLR 2024: attention between channels beside windows."""

from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.attention import ChannelBlock, WindowAttention
from sevnet_jax.models.rivals.common import (
    Conv,
    LayerNorm,
    Mlp,
    check_lengths,
    crop,
    pad_zeros,
)
from sevnet_jax.models.rivals.frames import Down, Up

TRAINED_ON = 128  # side of the patches that official networks are built for


class SpatialBlock(nn.Module):
    """`x` plus attention in windows, plus a map, both of normalised x. No degree.

    Zeros fill the last windows: tokens like others, which attention does see.
    """

    heads: int
    window: int
    shifted: bool
    expansion: float = 2.66

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = pad_zeros(LayerNorm(name="norm1")(x), self.window)
        moves = self.shifted and min(y.shape[1:3]) > self.window
        shift = self.window // 2 if moves else 0
        y = WindowAttention(self.heads, self.window, shift, name="attn")(y)
        x += crop(y, like=x)
        y = LayerNorm(name="norm2")(x)
        return x + Mlp(int(x.shape[-1] * self.expansion), name="mlp")(y)


def exchange(a: Array, b: Array, index: int) -> tuple[Array, Array]:  # as a and b
    """Each branch plus a convolution of the other. Degree 1 but for the biases."""
    c = a.shape[-1]
    from_b = Conv(c, groups=c, name=f"DWconvs.{index}")(b)
    from_a = Conv(c, name=f"Convs.{index}")(a)
    return a + from_b, b + from_a


def ascend(
    x: Array, skip: Array, up: str, reduce: str
) -> Array:  # [B, H, W, 2C], [B, 2H, 2W, C] -> [B, 2H, 2W, C]
    """`x` of the level below joined with the encoder's features. Degree 1."""
    y = jnp.concatenate([Up(name=up)(x), skip], axis=-1)
    return Conv(skip.shape[-1], 1, bias=False, name=reduce)(y)


class Xformer(Network):
    """Restored images: the input plus what two Us that exchange make of it. No degree.

    One U has channel blocks, the other has windows; both share their coarsest stage.
    Norms make every branch degree 0 beside a degree-1 stream, and the exchange has
    biases. Stochastic depth in training is left out.

    Every second block of a level shifts its windows if `shifted` says so. In official
    networks that is state: a level where some image was one window never shifts again,
    and they start with images of 128 x 128. Where an image is one window high or wide,
    nothing is shifted in any case.
    """

    channels: int = 3
    width: int = 48
    channel_blocks: tuple[int, ...] = (2, 4, 4)  # per level, finest first
    spatial_blocks: tuple[int, ...] = (2, 4, 4, 6)
    refinement: int = 4
    heads: tuple[int, ...] = (1, 2, 4, 8)
    windows: tuple[int, ...] = (16, 16, 16, 16)
    shifted: tuple[bool, ...] = (True, True, True, False)
    expansion: float = 2.66  # of both kinds of maps
    centred: bool = False  # norms of channel blocks; True is official "WithBias"

    multiple = 8
    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        check_lengths(
            self, channel_blocks=3, spatial_blocks=4, heads=4, windows=4, shifted=4
        )

        def attend_channels(name: str, level: int, count: int, y: Array) -> Array:
            for block in range(count):
                y = ChannelBlock(
                    self.heads[level],
                    self.expansion,
                    centred=self.centred,
                    name=f"{name}.{block}",
                )(y)
            return y

        def attend_space(name: str, level: int, *branches: Array) -> Sequence[Array]:
            for block in range(self.spatial_blocks[level]):
                shared = SpatialBlock(
                    self.heads[level],
                    self.windows[level],
                    self.shifted[level] and block % 2 == 1,
                    self.expansion,
                    name=f"{name}.{block}",
                )
                branches = tuple(shared(y) for y in branches)
            return branches

        padded = ops.pad_to_multiple(x, self.multiple)
        a = b = Conv(self.width, bias=False, name="patch_embed.proj")(padded)
        skips = []
        for level, count in enumerate(self.channel_blocks):
            deeper = f"{level + 1}_{level + 2}"
            a = attend_channels(f"encoder_level{level + 1}", level, count, a)
            (b,) = attend_space(f"encoder{level + 1}", level, b)
            skips.append((a, b))
            a, b = Down(name=f"down{deeper}")(a), Down(name=f"d{deeper}")(b)
            if level < 2:
                a, b = exchange(a, b, level)
        a, b = attend_space("s_latent", 3, a, b)
        for level, count in reversed([*enumerate(self.channel_blocks)]):
            higher = f"{level + 2}_{level + 1}"
            skip_a, skip_b = skips.pop()
            a = ascend(a, skip_a, f"up{higher}", f"reduce_chan_level{level + 1}")
            b = ascend(b, skip_b, f"u{higher}", f"reduce{level + 1}")
            if level < 2:
                a, b = exchange(a, b, 3 - level)
            a = attend_channels(f"decoder_level{level + 1}", level, count, a)
            (b,) = attend_space(f"decoder{level + 1}", level, b)
        y = jnp.concatenate([a, b], axis=-1)
        y = attend_channels("refinement", 0, self.refinement, y)
        y = Conv(self.channels, bias=False, name="output")(y)
        return crop(padded + y, like=x)


def read_windows(windows: tuple[int, ...]) -> dict[str, tuple]:
    """Fields of the official windows: no shift where a patch in training is but one."""
    shifted = tuple(
        TRAINED_ON >> level > window for level, window in enumerate(windows)
    )
    return {"windows": windows, "shifted": shifted}


official.declare(
    "xformer",
    Xformer,
    fields={
        "inp_channels": "channels",
        "dim": "width",
        "num_blocks": "channel_blocks",
        "spatial_num_blocks": "spatial_blocks",
        "num_refinement_blocks": "refinement",
        "heads": "heads",
        "window_size": read_windows,
        "ffn_expansion_factor": "expansion",
        "LayerNorm_type": official.read_norm,
    },
    same={"out_channels": "inp_channels"},
    fixed={"bias": False, "dual_pixel_task": False, "img_size": TRAINED_ON},
    unused=("drop_path_rate",),
    ignored=("*.relative_position_index", "*.attn_mask"),
    levels_vary=False,
)

register("xformer", Xformer, family="rival")  # its blind colour network
register("xformer_gaussian", Xformer, family="rival", centred=True)  # of one sigma
register(
    "xformer_xs",
    Xformer,
    family="rival",
    width=8,
    channel_blocks=(2, 2, 2),
    spatial_blocks=(2, 2, 2, 4),
    refinement=3,
    windows=(8, 8, 8, 8),
)
