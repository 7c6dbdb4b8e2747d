"""Uformer, of Wang et al., CVPR 2022: a U of window attention."""

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
    SwinDense,
    Upsample,
    check_lengths,
    crop,
    gelu,
)


class LocalMlp(nn.Module):
    """LeFF: an MLP with a depthwise convolution between two GELUs. No degree."""

    hidden: int

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        y = gelu(SwinDense(self.hidden, name="linear1.0")(x))
        y = gelu(Conv(self.hidden, groups=self.hidden, name="dwconv.0")(y))
        return SwinDense(x.shape[-1], name="linear2.0")(y)


class WindowBlock(nn.Module):
    """`x` plus window attention, plus a local MLP, both of normalised x. No degree.

    `modulated`, a learned token for each place in a window is added to the normalised
    ones before the attention.
    """

    heads: int
    window: int
    shift: int
    expansion: float
    modulated: bool

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        channels, offset = x.shape[-1], None
        if self.modulated:
            offset = self.param(
                "modulator.weight",
                nn.initializers.normal(1.0),
                (self.window**2, channels),
                jnp.float32,
            )
        y = LayerNorm(name="norm1")(x)
        x += WindowAttention(
            self.heads,
            self.window,
            self.shift,
            fused=False,
            dense=SwinDense,
            name="attn",
        )(y, offset)
        y = LayerNorm(name="norm2")(x)
        return x + LocalMlp(int(self.expansion * channels), name="mlp")(y)


class Uformer(Network):
    """Restored images: the input plus what a U of window attention makes of it.

    No degree: norms make every branch degree 0 beside a degree-1 stream, which is never
    normalised itself. The original's stochastic depth is left out.

    An original is built for patches of one size. Where these are no larger than a
    window, it has windows of their size and never shifts them, on larger images
    neither: so does the coarsest level of one that was trained on patches of 128.
    """

    channels: int = 3
    width: int = 32
    blocks: tuple[int, ...] = (2,) * 9  # encoder, bottom, decoder: in order of use
    heads: tuple[int, ...] = (1, 2, 4, 8, 16, 16, 8, 4, 2)
    window: int = 8
    expansion: float = 4.0  # of the local MLPs
    modulated: bool = False  # in the decoder
    patch: int = 256  # side of the training patches
    reflect: bool = False  # at the bottom and right; else a square of zeros around

    @property
    def multiple(self) -> int:
        return self.window << len(self.blocks) // 2

    reach = None  # finite, but larger than most images
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        stages = 2 * (len(self.blocks) // 2) + 1
        check_lengths(self, blocks=stages, heads=stages)
        if self.reflect:
            return crop(self.restore(ops.pad_to_multiple(x, self.multiple)), like=x)
        height, width = x.shape[1:3]
        side = max(height, width) + -max(height, width) % self.multiple
        top, left = (side - height) // 2, (side - width) // 2
        margins = ((top, side - height - top), (left, side - width - left))
        y = self.restore(jnp.pad(x, ((0, 0), *margins, (0, 0))))
        return crop(y[:, top:, left:], like=x)

    def restore(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        """What is restored of images whose sides are multiples of `multiple`."""
        y = Conv(self.width, name="input_proj.proj.0")(x)
        y = nn.leaky_relu(y)
        levels, skips = len(self.blocks) // 2, []
        for level in range(levels):
            y = self.run_stage(f"encoderlayer_{level}", level, level, y)
            skips.append(y)
            name = f"dowsample_{level}.conv.0"  # spelt so officially
            y = Conv(2 * y.shape[-1], 4, 2, padding=1, name=name)(y)
        y = self.run_stage("conv", levels, levels, y)
        for step in range(levels):
            skip = skips.pop()
            y = Upsample(skip.shape[-1], name=f"upsample_{step}.deconv.0")(y)
            y = jnp.concatenate([y, skip], axis=-1)
            stage, level = levels + 1 + step, levels - 1 - step
            y = self.run_stage(f"decoderlayer_{step}", stage, level, y)
        return x + Conv(self.channels, name="output_proj.proj.0")(y)

    def run_stage(
        self, name: str, stage: int, level: int, x: Array
    ) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        """The blocks of a stage, every other one shifted by half a window."""
        side = self.patch >> level
        window = min(self.window, side)
        shift = window // 2 if side > window else 0
        modulated = self.modulated and name.startswith("decoder")
        for block in range(self.blocks[stage]):
            x = WindowBlock(
                self.heads[stage],
                window,
                shift if block % 2 else 0,
                self.expansion,
                modulated,
                name=f"{name}.blocks.{block}",
            )(x)
        return x


official.declare(
    "uformer",
    Uformer,
    fields={
        "img_size": "patch",
        "embed_dim": "width",
        "depths": "blocks",
        "num_heads": "heads",
        "win_size": "window",
        "mlp_ratio": "expansion",
        "modulator": "modulated",
    },
    fixed={
        "in_chans": 3,  # with others the original does not add the input
        "dd_in": 3,
        "qkv_bias": True,
        "qk_scale": None,
        "token_projection": "linear",
        "token_mlp": "leff",
        "shift_flag": True,
        "cross_modulator": False,
    },
    unused=("drop_rate", "attn_drop_rate", "drop_path_rate"),
    ignored=("*.relative_position_index",),
)

register("uformer", Uformer, family="rival")  # its size S, without modulators
register(
    "uformer_sidd",
    Uformer,
    family="rival",
    blocks=(1, 2, 8, 8, 2, 8, 8, 2, 1),
    modulated=True,
    patch=128,
)
# Half the levels and sides of windows, so that small patches need no padding.
register(
    "uformer_xs",
    Uformer,
    family="rival",
    width=16,
    blocks=(1, 2, 2, 2, 1),
    heads=(1, 2, 4, 4, 2),
    window=4,
    modulated=True,
    reflect=True,
)
