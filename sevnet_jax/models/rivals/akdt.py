"""AKDT, of Brateanu et al., VISAPP 2025: channel attention after dilated kernels."""

import functools
from collections.abc import Callable

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.attention import attend_channels
from sevnet_jax.models.rivals.common import (
    Conv,
    LayerNorm,
    check_lengths,
    crop,
    gelu,
    halves,
)
from sevnet_jax.models.rivals.frames import run_restormer_frame

NEAR, FAR = (1, 2, 3), (5, 7, 9)  # dilations


class DilatedBranch(nn.Module):
    """A mean of dilated convolutions in few channels, its weights learnt. Degree 1."""

    features: int
    dilations: tuple[int, ...]

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, features]
        count = (len(self.dilations),)
        normal = nn.initializers.normal(1.0)
        weights = self.param("combine_weights", normal, count, jnp.float32)
        x = Conv(self.features, 1, bias=False, name="input_conv")(x)
        terms = [
            Conv(self.features, dilation=d, bias=False, name=f"conv_layers.{i}")(x)
            * weight.astype(x.dtype)
            for i, (d, weight) in enumerate(
                zip(self.dilations, nn.softmax(weights), strict=True)
            )
        ]
        return Conv(self.features, 1, bias=False, name="output_conv")(
            functools.reduce(jnp.add, terms)
        )


class NoiseEstimator(nn.Module):
    """A linear map of near and far neighbours. Degree 1 but for the bias of its end."""

    features: int
    inner: int  # channels of each branch

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, features]
        near = DilatedBranch(self.inner, NEAR, name="noise_est_local")(x)
        far = DilatedBranch(self.inner, FAR, name="noise_est_global")(x)
        y = jnp.concatenate([near, far], axis=-1)
        return Conv(self.features, 1, name="out_conv")(y)


class Attention(nn.Module):
    """Attention between channels that an estimator makes. Degree 1 without bias."""

    heads: int

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c = x.shape[-1]
        ones = nn.initializers.ones
        temperature = self.param("temperature", ones, (self.heads,), jnp.float32)
        qkv = NoiseEstimator(3 * c, c // 4, name="ldr_qkv")(x)
        y = attend_channels(qkv, temperature)
        return Conv(c, 1, bias=False, name="project_out")(y)


class FeedForward(nn.Module):
    """A wide map through an estimator, one half gating the other. No degree."""

    expansion: float = 2.66

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c, hidden = x.shape[-1], int(x.shape[-1] * self.expansion)
        y = Conv(2 * hidden, 1, bias=False, name="project_in")(x)
        gate, value = halves(NoiseEstimator(2 * hidden, c // 4, name="ldr")(y))
        return Conv(c, 1, bias=False, name="project_out")(gelu(gate) * value)


class Block(nn.Module):
    """`x` plus channel attention, plus a gated map, both of normalised x. No degree."""

    heads: int
    expansion: float = 2.66
    centred: bool = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = LayerNorm(centred=self.centred, name="norm1.body")(x)
        x += Attention(self.heads, name="attn")(y)
        y = LayerNorm(centred=self.centred, name="norm2.body")(x)
        return x + FeedForward(self.expansion, name="ffn")(y)


class Frame(nn.Module):
    """`x` plus what Restormer's frame makes of it. Degree 1 if its stages have it.

    A module for its name, with which all official keys begin.
    """

    width: int
    stage: Callable[[str, int, Array], Array]

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = Conv(self.width, bias=False, name="patch_embed.proj")(x)
        y = run_restormer_frame(y, self.stage)
        return x + Conv(x.shape[-1], bias=False, name="output")(y)


class AKDT(Network):
    """Restored images: the input plus what a U of dilated attention makes of it.

    No degree: norms make every branch degree 0 beside a degree-1 stream, and the
    estimators, linear otherwise, end with a bias.
    """

    channels: int = 3
    width: int = 34
    blocks: tuple[int, ...] = (1, 2, 2, 4)  # per level, finest first; encoder = decoder
    refinement: int = 3
    heads: tuple[int, ...] = (1, 2, 4, 8)
    expansion: float = 2.66  # of the gated maps
    centred: bool = False  # norms; True is official "WithBias"

    multiple = 8
    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        check_lengths(self, blocks=4, heads=4)

        def stage(name: str, level: int, y: Array) -> Array:
            count = self.refinement if name == "refinement" else self.blocks[level]
            for block in range(count):
                y = Block(
                    self.heads[level],
                    self.expansion,
                    self.centred,
                    name=f"{name}.{block}",
                )(y)
            return y

        padded = ops.pad_to_multiple(x, self.multiple)
        return crop(Frame(self.width, stage, name="transformer")(padded), like=x)


official.declare(
    "akdt",
    AKDT,
    fields={
        "inp_channels": "channels",
        "dim": "width",
        "num_blocks": "blocks",
        "num_refinement_blocks": "refinement",
        "heads": "heads",
        "ffn_expansion_factor": "expansion",
        "LayerNorm_type": official.read_norm,
    },
    same={"out_channels": "inp_channels"},
    fixed={"bias": False},
    unused=("dual_pixel_task",),
    levels_vary=False,
)

register("akdt", AKDT, family="rival")  # its Gaussian and its real-noise network
register(
    "akdt_xs",
    AKDT,
    family="rival",
    width=12,
    blocks=(1, 1, 1, 2),
    refinement=1,
)
