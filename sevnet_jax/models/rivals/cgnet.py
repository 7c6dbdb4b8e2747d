"""CGNet, of Ghasemabadi et al., TMLR 2024: NAFNet's U with encoders that see far."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array

from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.common import (
    Conv,
    LayerNorm,
    check_lengths,
    crop,
    gelu,
    halves,
    pad_zeros,
)
from sevnet_jax.models.rivals.frames import run_naf_frame
from sevnet_jax.models.rivals.naf import (
    EPS,
    NAFBlock,
    add_gated_map,
    find_pools,
    pool_mean,
    scale_channels,
)

Cascade = tuple[tuple[int, int], ...]  # kernel and stride of each convolution
LONG: Cascade = ((3, 2), (3, 3), (5, 4))


class CGNet(Network):
    """Restored images: the input plus a bounded change that a U finds. No degree.

    Norms make every branch degree 0 beside a degree-1 stream; gates and pooling double
    the degree, GELU has none, and the change ends at 1. With `train_size`, blocks pool
    over boxes of the size that they were trained on. Images too small for the cascades,
    which the original refuses, are first extended by their edges.
    """

    channels: int = 3
    width: int = 70
    encoder: tuple[int, ...] = (4, 4, 6, 8)  # blocks per level, finest first
    middle: int = 10
    decoder: tuple[int, ...] = (2, 2, 2, 4)  # coarsest first
    cascades: tuple[int, ...] = (3, 3, 2, 2)  # convolutions of a level's cascades
    stride: int = 1  # of the second convolution, where there are two
    bounded: bool = True  # what is added to the image lies in [-1, 1]
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
        check_lengths(self, encoder=levels, decoder=levels, cascades=levels)
        if not {*self.cascades} <= {2, 3}:
            raise ValueError(
                f"a cascade has 2 or 3 convolutions, got cascades={self.cascades!r}"
            )
        pools = find_pools(self.train_size, levels)
        counts = [*self.encoder, self.middle, *self.decoder]

        def stage(name: str, level: int, y: Array) -> Array:
            for block in range(counts.pop(0)):
                label = f"{name}.{block}"
                if name.startswith("encoders"):
                    cascade = self._find_cascade(level)
                    y = CascadedGazeBlock(cascade, pools[level], name=label)(y)
                else:
                    y = NAFBlock(pools[level], name=label)(y)
            return y

        padded = pad_zeros(self._enlarge(x), self.multiple)
        y = Conv(self.width, name="intro")(padded)
        _, decoded = run_naf_frame(y, levels, stage)
        y = Conv(self.channels, name="ending")(decoded[-1])
        if self.bounded:
            y = jnp.clip(y, -1, 1)
        return crop(padded + y, like=x)

    def _find_cascade(self, level: int) -> Cascade:
        return LONG if self.cascades[level] == 3 else ((3, 2), (3, self.stride))

    def _enlarge(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H', W', C]
        """`x`, repeating its last row or column where no cascade has room. Degree 1.

        Sides that have room once padded to the multiple are left to that.
        """
        needed = 0
        for level in range(len(self.encoder)):
            side = 1
            for kernel, stride in reversed(self._find_cascade(level)):
                side = (side - 1) * stride + kernel
            needed = max(needed, side << level)
        room = needed + -needed % self.multiple
        lacks = [
            room - side if side + -side % self.multiple < room else 0
            for side in x.shape[1:3]
        ]
        widths = ((0, 0), *((0, lack) for lack in lacks), (0, 0))
        return jnp.pad(x, widths, mode="edge") if any(lacks) else x


class CascadedGazeBlock(nn.Module):
    """`x` plus a map of itself at several scales, plus a gated map. No degree.

    Starts as the identity. `pool` is the side of the box that is pooled over; None is
    the whole image.
    """

    cascade: Cascade
    pool: int | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c = x.shape[-1]
        y = LayerNorm(EPS, name="norm1")(x)
        y = Conv(2 * c, 1, name="conv1")(y)
        y = gelu(Conv(2 * c, groups=2 * c, name="conv2")(y))
        scales, glance = [y], jnp.add(*halves(y))
        for i, (kernel, stride) in enumerate(self.cascade):
            name = f"GCE.depthwise_separable_convs.{i}"
            glance = Glance(kernel, stride, name=name)(glance)
            scales.append(stretch(glance, like=y))
        y = jnp.concatenate(scales, axis=-1)
        y *= Conv(y.shape[-1], 1, name="sca.1")(pool_mean(y, self.pool))
        y = Conv(c, 1, name="project_out")(y)
        return add_gated_map(self, x + scale_channels(self, "beta", y))


class Glance(nn.Module):
    """A smaller map, of pixels that each saw `kernel` x `kernel` others. No degree."""

    kernel: int
    stride: int

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H', W', C]
        c = x.shape[-1]
        strided = Conv(
            c, self.kernel, self.stride, 0, groups=c, bias=False, name="depthwise"
        )
        return gelu(Conv(c, 1, bias=False, name="pointwise")(strided(x)))


def stretch(x: Array, like: Array) -> Array:  # [B, h, w, C], [B, H, W, D] -> [B,H,W,C]
    """`x` at the size of `like`, each pixel that of its top left corner. Degree 1."""
    for axis in (1, 2):
        small, large = x.shape[axis], like.shape[axis]
        # In float32, whose rounding moves a row at some sizes, as the original's does.
        places = np.arange(large, dtype=np.float32) * np.float32(small / large)
        x = x.take(np.minimum(places.astype(np.int32), small - 1), axis)
    return x


def read_cascades(kinds: tuple[int, ...]) -> dict[str, Any]:
    """Fields of the official cascades, whose kinds tell its two networks apart.

    That for Gaussian noise has 4 for three convolutions and 3 for two; that for SIDD
    counts them.
    """
    found = {*kinds}
    if 4 in found <= {3, 4}:
        cascades = tuple(kind - 1 for kind in kinds)
        return {"cascades": cascades, "stride": 1, "bounded": True}
    if 2 in found <= {2, 3}:
        return {"cascades": kinds, "stride": 3, "bounded": False}
    raise ValueError(
        "GCE_CONVS_nums has 4 and perhaps 3 (Gaussian noise), or 2 and perhaps 3 "
        f"(SIDD); got {kinds!r}"
    )


official.declare(
    "cgnet",
    CGNet,
    fields={
        "img_channel": "channels",
        "width": "width",
        "enc_blk_nums": "encoder",
        "middle_blk_num": "middle",
        "dec_blk_nums": "decoder",
        "GCE_CONVS_nums": read_cascades,
        **official.POOLING,
    },
    fixed=official.POOLING_FIXED,
)

register("cgnet", CGNet, family="rival")  # its network for colour Gaussian noise
register(
    "cgnet_sidd",
    CGNet,
    family="rival",
    width=60,
    encoder=(2, 2, 4, 6),
    decoder=(2, 2, 2, 2),
    stride=3,
    bounded=False,
)
register(
    "cgnet_xs",
    CGNet,
    family="rival",
    width=24,
    encoder=(1, 1, 1, 2),
    middle=2,
    decoder=(1, 1, 1, 1),
)
