"""Restormer, of Zamir et al., CVPR 2022: attention between channels, in a U."""

from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.attention import ChannelBlock
from sevnet_jax.models.rivals.common import Conv, check_lengths, crop
from sevnet_jax.models.rivals.frames import run_restormer_frame


class Restormer(Network):
    """Restored images: the input plus what a U of channel blocks makes of it.

    No degree: norms make every branch degree 0 beside a degree-1 stream. The attention
    alone has degree 1, the gated maps none.
    """

    channels: int = 3
    width: int = 48
    blocks: tuple[int, ...] = (4, 6, 6, 8)  # per level, finest first; encoder = decoder
    refinement: int = 4
    heads: tuple[int, ...] = (1, 2, 4, 8)
    expansion: float = 2.66  # of the gated maps
    bias: bool = False
    centred: bool = True  # norms; False is the official networks' "BiasFree"

    multiple = 8
    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        check_lengths(self, blocks=4, heads=4)

        def stage(name: str, level: int, y: Array) -> Array:
            heads = self.heads[level]
            count = self.refinement if name == "refinement" else self.blocks[level]
            for block in range(count):
                y = ChannelBlock(
                    heads,
                    self.expansion,
                    self.bias,
                    self.centred,
                    name=f"{name}.{block}",
                )(y)
            return y

        padded = ops.pad_to_multiple(x, self.multiple)
        y = Conv(self.width, bias=False, name="patch_embed.proj")(padded)
        y = run_restormer_frame(y, stage, self.bias)
        y = Conv(self.channels, bias=self.bias, name="output")(y)
        return crop(padded + y, like=x)


official.declare(
    "restormer",
    Restormer,
    fields={
        "inp_channels": "channels",
        "dim": "width",
        "num_blocks": "blocks",
        "num_refinement_blocks": "refinement",
        "heads": "heads",
        "ffn_expansion_factor": "expansion",
        "bias": "bias",
        "LayerNorm_type": official.read_norm,
    },
    same={"out_channels": "inp_channels"},
    fixed={"dual_pixel_task": False},
    unused=("outer_pad",),
    levels_vary=False,
)

register("restormer", Restormer, family="rival")
register("restormer_gaussian", Restormer, family="rival", centred=False)
register(
    "restormer_xs",
    Restormer,
    family="rival",
    width=12,
    blocks=(1, 2, 3, 4),
    refinement=1,
)
