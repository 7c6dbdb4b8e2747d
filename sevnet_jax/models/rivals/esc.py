"""ESC, of Lee et al., ICCV 2025: convolutions instead of most self-attention."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import ops
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.cpu import depthwise
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.attention import (
    attend,
    cut_windows,
    join_windows,
    split_heads,
)
from sevnet_jax.models.rivals.common import Conv, LayerNorm, crop, gelu
from sevnet_jax.models.rivals.naf import pool_mean

EPS = 1e-6  # of every norm
LOGITS = 2**24  # at once: 64 MB


class ESC(Network):
    """Restored images: the input plus what blocks of large kernels make of it.

    No degree: norms make branches degree 0 beside a degree-1 stream, kernels made of
    the image have degree 2 beside one of degree 1, and GELU has none. Of the original,
    which enlarges images, this is the network for a factor of 1.

    Images are reflected inside the attention only, or with `pad_image`, by which the
    original is evaluated, as a whole. Sides too short for it repeat their edge.
    """

    channels: int = 3
    width: int = 64
    part: int = 16  # channels that the large kernel sees, the first of all
    size: int = 13  # of the large kernel
    blocks: int = 5
    convolutions: int = 5  # in each block
    window: int = 32
    heads: int = 4
    expansion: float = 1.25  # inside the maps before convolutions
    normed: bool = False  # those maps too
    pad_image: bool = False

    @property
    def multiple(self) -> int:
        return self.window

    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        image = ops.pad_to_multiple(x, self.window) if self.pad_image else x
        shape = (self.part, self.part, self.size, self.size)
        init = nn.initializers.orthogonal(column_axis=0)
        kernel = symmetrize(self.param("plk_filter", init, shape, jnp.float32))
        shallow = y = Conv(self.width, name="proj")(image)
        for block in range(self.blocks):
            y = Block(
                self.convolutions,
                self.window,
                self.heads,
                self.expansion,
                self.normed,
                name=f"blocks.{block}",
            )(y, kernel)
        y = shallow + Conv(self.width, name="last")(y)
        return crop(image + Conv(self.channels, name="to_img")(y), like=x)


def symmetrize(weight: Array) -> Array:  # [out, in, s, s] -> [s, s, in, out]
    """A kernel's mean over the eight turns and flips of a square. Degree 1."""
    mean = (weight + weight.swapaxes(2, 3)) / 2
    for axis in (2, 3):
        mean = (mean + jnp.flip(mean, axis)) / 2
    return mean.transpose(2, 3, 1, 0)


class Block(nn.Module):
    """`x` plus a map of window attention and of several convolutions. No degree."""

    convolutions: int
    window: int
    heads: int
    expansion: float
    normed: bool

    @nn.compact
    def __call__(
        self, x: Array, kernel: Array
    ) -> Array:  # [B, H, W, C], [s, s, part, part] -> [B, H, W, C]
        y = LayerNorm(EPS, name="ln_proj")(x)
        y = ConvFeedForward(2, name="proj")(y)
        z = LayerNorm(EPS, name="ln_attn")(y)
        y += WindowAttention(self.heads, self.window, name="attn")(z)
        for i in range(self.convolutions):
            z = LayerNorm(EPS, name=f"lns.{i}")(y) if self.normed else y
            z = ConvFeedForward(self.expansion, name=f"convffns.{i}")(z)
            y += ConvAttention(name=f"pconvs.{i}")(z, kernel)
        y = LayerNorm(EPS, name="ln_out")(y)
        return x + Conv(x.shape[-1], name="conv_out")(y)


class ConvFeedForward(nn.Module):
    """Linear, GELU, itself plus GELU of what is around, linear. No degree."""

    expansion: float

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        hidden = int(x.shape[-1] * self.expansion)
        y = gelu(Conv(hidden, 1, name="proj")(x))
        y += gelu(Conv(hidden, groups=hidden, name="dwc")(y))
        return Conv(x.shape[-1], 1, name="aggr")(y)


class ConvAttention(nn.Module):
    """A map of `x` whose first channels went through two kernels. No degree.

    One is large and shared by all blocks; the other, 3x3 for each channel, each image
    has for itself, made of these channels' means. That one starts at 0.
    """

    @nn.compact
    def __call__(
        self, x: Array, kernel: Array
    ) -> Array:  # [B, H, W, C], [s, s, part, part] -> [B, H, W, C]
        batch, part = x.shape[0], kernel.shape[-1]
        seen, rest = jnp.split(x, [part], axis=-1)
        zeros = nn.initializers.zeros
        own = gelu(Conv(part // 2, 1, name="plk.dwc_proj.1")(pool_mean(seen)))
        own = Conv(
            9 * part, 1, kernel_init=zeros, bias_init=zeros, name="plk.dwc_proj.3"
        )(own)
        own = own.reshape(batch, part, 3, 3).transpose(0, 2, 3, 1)
        y = ops.convolve(seen, kernel)
        y += jax.vmap(depthwise.convolve)(seen[:, None], own[:, :, :, None])[:, 0]
        y = jnp.concatenate([y, rest], axis=-1)
        return Conv(x.shape[-1], 1, name="aggr")(y)


class WindowAttention(nn.Module):
    """Self-attention in windows that do not move, with a table of positions. No degree.

    Sides are reflected up to multiples of the window, keys among them. Some windows are
    attended to after others, and once more for the gradient: the logits of all windows
    of 32 x 32 pixels would take a gigabyte for an image of 256 x 256.
    """

    heads: int
    window: int

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        channels, window = x.shape[-1], (self.window, self.window)
        y = Conv(3 * channels, 1, name="to_qkv")(ops.pad_to_multiple(x, self.window))
        batch, size = y.shape[0], y.shape[1:3]
        places = self.param(
            "relative_position_bias",
            nn.initializers.normal(0.001),
            (self.heads, (2 * self.window - 1) ** 2),
            jnp.float32,
        )
        places = tabulate(places, self.window)[None, None]

        @jax.checkpoint
        def attend_in(qkv):  # [N, 3C] -> [N, C]
            query, key, value = (
                split_heads(z[None, None], self.heads) for z in jnp.split(qkv, 3, -1)
            )
            query *= (channels // self.heads) ** -0.5
            return attend(query, key, value, places)[0, 0]

        windows = cut_windows(y, window)
        count = min(batch * windows.shape[1], max(1, LOGITS // places.size))
        y = windows.reshape(-1, *windows.shape[2:])
        y = lax.map(attend_in, y, batch_size=count)
        y = join_windows(y.reshape(*windows.shape[:3], channels), window, size)
        return Conv(channels, 1, name="to_out")(crop(y, like=x))


def tabulate(
    table: Array, window: int
) -> Array:  # [heads, (2 window - 1)**2] -> [heads, N, N]
    """What the table holds for the key's place minus the query's, for all pairs.

    Column by column, then row by row: few and long slices, whose gradient is fast.
    """
    side = np.arange(window)
    difference = side[None] - side[:, None] + window - 1  # [query, key]
    table = table.reshape(-1, 2 * window - 1, 2 * window - 1)
    table = table[:, :, difference][:, difference]  # [heads, rows, rows, columns, ...]
    return table.transpose(0, 1, 3, 2, 4).reshape(-1, window**2, window**2)


official.declare(
    "esc",
    ESC,
    fields={
        "dim": "width",
        "pdim": "part",
        "kernel_size": "size",
        "n_blocks": "blocks",
        "conv_blocks": "convolutions",
        "window_size": "window",
        "num_heads": "heads",
        "exp_ratio": "expansion",
        "use_ln": "normed",
    },
    fixed={"upscaling_factor": 1},
    unused=("attn_type",),
)

register("esc", ESC, family="rival")
register(
    "esc_xs",
    ESC,
    family="rival",
    width=20,
    part=4,
    blocks=2,
    convolutions=3,
    window=16,
)
