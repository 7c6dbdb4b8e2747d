"""NAFNet, of Chen et al., "Simple Baselines for Image Restoration", ECCV 2022."""

from flax import linen as nn
from jax import Array

from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.common import Conv, check_lengths, crop, pad_zeros
from sevnet_jax.models.rivals.frames import run_naf_frame
from sevnet_jax.models.rivals.naf import NAFBlock, find_pools


class NAFNet(Network):
    """Restored images: the input plus what a U of NAF blocks makes of it. No degree.

    Norms make every branch degree 0 beside a degree-1 stream; gates double the degree.
    With `train_size`, blocks pool over boxes of the size that they were trained on.
    """

    channels: int = 3
    width: int = 32
    encoder: tuple[int, ...] = (2, 2, 4, 8)  # blocks per level, finest first
    middle: int = 12
    decoder: tuple[int, ...] = (2, 2, 2, 2)  # coarsest first
    train_size: int | None = None  # side of the patches; None: pools the whole image

    @property
    def multiple(self) -> int:
        return 2 ** len(self.encoder)

    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        levels = len(self.encoder)
        check_lengths(self, encoder=levels, decoder=levels)
        pools = find_pools(self.train_size, levels)
        counts = [*self.encoder, self.middle, *self.decoder]

        def stage(name: str, level: int, y: Array) -> Array:
            for block in range(counts.pop(0)):
                y = NAFBlock(pools[level], name=f"{name}.{block}")(y)
            return y

        padded = pad_zeros(x, self.multiple)
        y = Conv(self.width, name="intro")(padded)
        _, decoded = run_naf_frame(y, levels, stage)
        y = Conv(self.channels, name="ending")(decoded[-1])
        return crop(padded + y, like=x)


official.declare(
    "nafnet",
    NAFNet,
    fields={
        "img_channel": "channels",
        "width": "width",
        "enc_blk_nums": "encoder",
        "middle_blk_num": "middle",
        "dec_blk_nums": "decoder",
        **official.POOLING,
    },
    fixed=official.POOLING_FIXED,
)

register("nafnet", NAFNet, family="rival")  # its SIDD network of width 32
register("nafnet_sidd64", NAFNet, family="rival", width=64)
register(
    "nafnet_xs",
    NAFNet,
    family="rival",
    width=24,
    encoder=(2, 2, 2, 2),
    middle=2,
    decoder=(1, 1, 1, 1),
)
