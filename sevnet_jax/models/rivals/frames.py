"""The two U-shapes that several rivals share: Restormer's and NAFNet's."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models.rivals.common import Conv, pixel_shuffle, pixel_unshuffle


class Down(nn.Module):
    """Half the sides, twice the channels. Degree 1."""

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H/2, W/2, 2C]
        y = Conv(x.shape[-1] // 2, bias=False, name="body.0")(x)
        return pixel_unshuffle(y)


class Up(nn.Module):
    """Twice the sides, half the channels. Degree 1."""

    size: int = 3  # of the kernel
    inner: str = "body.0"  # the convolution's name

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, 2H, 2W, C/2]
        y = Conv(2 * x.shape[-1], self.size, bias=False, name=self.inner)(x)
        return pixel_shuffle(y)


def run_restormer_frame(
    x: Array, stage: Callable[[str, int, Array], Array], bias: bool = False
) -> Array:  # [B, H, W, C] -> [B, H, W, 2C]
    """What Restormer's four levels make of features; sides are multiples of 8.

    `stage(name, level, x)` runs the blocks of a stage, level 0 the finest. The finest
    decoder keeps the double width of its skip. `bias` is that of the reductions.
    """
    skips = []
    for level in (1, 2, 3):
        x = stage(f"encoder_level{level}", level - 1, x)
        skips.append(x)
        x = Down(name=f"down{level}_{level + 1}")(x)
    x = stage("latent", 3, x)
    for level in (3, 2, 1):
        up = Up(name=f"up{level + 1}_{level}")(x)
        x = jnp.concatenate([up, skips.pop()], axis=-1)
        if level > 1:
            name = f"reduce_chan_level{level}"
            x = Conv(x.shape[-1] // 2, 1, bias=bias, name=name)(x)
        x = stage(f"decoder_level{level}", level - 1, x)
    return stage("refinement", 0, x)


def run_naf_frame(
    x: Array, levels: int, stage: Callable[[str, int, Array], Array]
) -> tuple[Sequence[Array], Sequence[Array]]:  # [B, H, W, C] -> features of all levels
    """What the encoders and the decoders of NAFNet's U give, each in order of use.

    `stage(name, level, x)` runs the blocks of a stage, level 0 the finest. The sides
    are multiples of 2 to the power of `levels`; the last of the decoders' features has
    the size of `x`.
    """
    encoded, decoded = [], []
    for level in range(levels):
        x = stage(f"encoders.{level}", level, x)
        encoded.append(x)
        x = Conv(2 * x.shape[-1], 2, 2, padding=0, name=f"downs.{level}")(x)
    x = stage("middle_blks", levels, x)
    for step, skip in enumerate(reversed(encoded)):
        x = Up(1, "0", name=f"ups.{step}")(x) + skip
        x = stage(f"decoders.{step}", levels - 1 - step, x)
        decoded.append(x)
    return encoded, decoded
