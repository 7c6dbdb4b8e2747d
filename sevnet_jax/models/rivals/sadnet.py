"""SADNet, of Chang et al., ECCV 2020: deformable convolutions in a U."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import ops, tokens
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import common, official
from sevnet_jax.models.rivals.attention import multiply_wide
from sevnet_jax.models.rivals.common import crop, spread, uniform

TAPS = 9  # of a 3x3 kernel
Conv = functools.partial(
    common.Conv,
    kernel_init=nn.initializers.xavier_uniform(),
    bias_init=nn.initializers.zeros,
)
Upsample = functools.partial(
    common.Upsample,
    weight_init=nn.initializers.variance_scaling(
        1.0, "fan_avg", "uniform", in_axis=0, out_axis=1
    ),
    bias_init=nn.initializers.zeros,
)


class SADNet(Network):
    """Restored images: the input plus what a U of deformable kernels makes of it.

    No degree, also without biases: the places that a kernel reads move with the scale
    of the input, and it weighs them by sigmoids. How far they move has no bound. Sides
    are padded by reflection, which is our rule: the original's tests crop the image.
    """

    channels: int = 3
    width: int = 32
    offsets: int = 32  # channels of the features that say where to look
    groups: int = 8  # of channels that look at places of their own

    multiple = 8
    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        padded = ops.pad_to_multiple(x, self.multiple)
        y, skips, guide = padded, [], None
        for level in (1, 2, 3, 4):
            width = self.width << (level - 1)
            if level > 1:
                y = leak(Conv(width, 2, 2, padding=0, name=f"down{level - 1}")(y))
            y = ResBlock(width, name=f"res{level}")(y)
            skips.append(y)
        y = Context(name="context")(skips.pop())
        for level in (4, 3, 2, 1):
            if level < 4:
                width = self.width << (level - 1)
                y = Upsample(width, name=f"up{level}")(y)
                y = jnp.concatenate([y, skips.pop()], axis=-1)
                y = Conv(width, 1, name=f"dconv{level}_1")(y)
            guide = Guide(self.offsets, name=f"offset{level}")(y, guide)
            y = AdaptiveBlock(self.groups, name=f"dres{level}")(y, guide)
        return crop(padded + Conv(self.channels, name="out")(y), like=x)


def leak(x: Array) -> Array:  # any shape
    """`x`, where it is negative a fifth of it. Degree 1."""
    return nn.leaky_relu(x, 0.2)


class ResBlock(nn.Module):
    """Features, projected if they are too few, plus a map. Degree 1 without bias."""

    features: int

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, features]
        if x.shape[-1] != self.features:
            x = Conv(self.features, 1, name="conv0")(x)
        y = leak(Conv(self.features, name="conv1")(x))
        return x + Conv(self.features, name="conv2")(y)


class Context(nn.Module):
    """`x` plus a map of wider and wider surroundings. Degree 1 without bias."""

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        quarter = x.shape[-1] // 4
        y = Conv(quarter, 1, name="conv0")(x)
        wider = [
            leak(Conv(quarter, dilation=dilation, name=f"conv{dilation}")(y))
            for dilation in (1, 2, 3, 4)
        ]
        return x + Conv(x.shape[-1], 1, name="fusion")(jnp.concatenate(wider, axis=-1))


class Guide(nn.Module):
    """Features that say where to look, of `x` and coarser ones. Degree 1 bias apart."""

    features: int

    @nn.compact
    def __call__(
        self, x: Array, coarser: Array | None
    ) -> Array:  # [B, H, W, C], [B, H/2, W/2, features] -> [B, H, W, features]
        y = leak(Conv(self.features, name="offset_conv1")(x))
        if coarser is not None:
            # A distance in pixels is twice as long at twice the size.
            y = jnp.concatenate([y, 2 * double(coarser)], axis=-1)
            y = leak(Conv(self.features, name="offset_conv2")(y))
        return leak(Conv(self.features, name="offset_conv3")(y))


def double(x: Array) -> Array:  # [B, H, W, C] -> [B, 2H, 2W, C]
    """`x` at twice the size: linear between pixels' centres, even beyond. Degree 1."""
    for axis in (1, 2):
        side = x.shape[axis]
        widths = [(int(i == axis),) * 2 for i in range(x.ndim)]
        around = jnp.pad(x, widths, mode="edge")
        pair = [
            0.75 * x + 0.25 * lax.slice_in_dim(around, start, start + side, axis=axis)
            for start in (0, 2)
        ]
        shape = [size << (i == axis) for i, size in enumerate(x.shape)]
        x = jnp.stack(pair, axis + 1).reshape(shape)
    return x


class AdaptiveBlock(nn.Module):
    """`x` plus a map of what its deformable kernels read. No degree."""

    groups: int

    @nn.compact
    def __call__(
        self, x: Array, guide: Array
    ) -> Array:  # [B, H, W, C], [B, H, W, D] -> [B, H, W, C]
        y = leak(DeformableConv(self.groups, name="dcnpack")(x, guide))
        return x + Conv(x.shape[-1], name="conv1")(y)


class DeformableConv(nn.Module):
    """A 3x3 convolution that reads moved and weighted pixels. No degree.

    `guide` says how far each tap moves in each group of channels, and how much what it
    reads counts: degree 1 in `x` alone, without bias.
    """

    groups: int

    @nn.compact
    def __call__(
        self, x: Array, guide: Array
    ) -> Array:  # [B, H, W, C], [B, H, W, D] -> [B, H, W, C]
        (b, h, w, c), groups = x.shape, self.groups
        shape, init = (3, 3, c, c), uniform(TAPS * c)
        kernel = self.param("kernel", init, shape, jnp.float32).astype(x.dtype)
        bias = self.param("bias", nn.initializers.zeros, (c,), jnp.float32)
        signal = Conv(3 * TAPS * groups, name="conv_offset_mask")(guide)
        moves, mask = jnp.split(tokens.widen(signal), [2 * TAPS * groups], axis=-1)
        moves = jnp.moveaxis(moves.reshape(b, h, w, groups, TAPS, 2), 4, 0)
        mask = jnp.moveaxis(nn.sigmoid(mask).reshape(b, h, w, groups, TAPS), 4, 0)
        corners = gather_corners(x.reshape(b, h, w, groups, c // groups))

        # One tap after the other, and read again for the gradient: all nine at once,
        # each of four neighbours, would fill the memory.
        @jax.checkpoint
        def add_tap(total, tap):
            step, move, weight, matrix = tap
            read = sample(corners, move + step.reshape(1, 1, 1, 1, 2))
            read = (read * weight[..., None]).astype(x.dtype).reshape(x.shape)
            return total + multiply_wide("bhwi,io->bhwo", read, matrix), None

        steps = jnp.asarray(np.indices((3, 3)).reshape(2, TAPS).T - 1, moves.dtype)
        taps = (steps, moves, mask, kernel.reshape(TAPS, c, c))
        y, _ = lax.scan(add_tap, jnp.zeros(x.shape, moves.dtype), taps)
        return (y + spread(bias, y)).astype(x.dtype)


def gather_corners(x: Array) -> Array:  # [B, H, W, G, d] -> [B, H+3, W+3, G, 4d]
    """Each pixel beside those to its right, below, and right below. Degree 1.

    With so many zeros around that all neighbours of any place outside are among them.
    """
    h, w = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0), (0, 0)))
    corners = [padded[:, i : h + 3 + i, j : w + 3 + j] for i in (0, 1) for j in (0, 1)]
    return jnp.concatenate(corners, axis=-1)


def sample(
    corners: Array, moves: Array
) -> Array:  # [B, H+3, W+3, G, 4d], [B, H, W, G, 2] -> [B, H, W, G, d]
    """What is so many rows and columns further, linear between pixels, 0 outside.

    Degree 1 in `corners`, of the type of `moves`. All four corners are read at once:
    CPUs add up the gradients of what was read one place after the other.
    """
    b, h, w, groups, _ = moves.shape
    whole = jnp.floor(moves)
    down, right = jnp.split(moves - whole, 2, axis=-1)

    def find(axis):  # [B, H, W, G], counted from the first zeros
        side = moves.shape[axis]
        here = np.arange(side).reshape([-1 if i == axis else 1 for i in range(4)])
        place = whole[..., axis - 1] + here.astype(moves.dtype)
        return jnp.clip(place, -2, side).astype(jnp.int32) + 2

    image = np.arange(b, dtype=np.int32).reshape(b, 1, 1, 1)
    group = np.arange(groups, dtype=np.int32).reshape(1, 1, 1, groups)
    index = ((image * (h + 3) + find(1)) * (w + 3) + find(2)) * groups + group
    rows = corners.reshape(-1, corners.shape[-1])
    read = rows.at[index].get(mode="promise_in_bounds").astype(moves.dtype)
    here, beside, below, across = jnp.split(read, 4, axis=-1)
    top = (1 - right) * here + right * beside
    bottom = (1 - right) * below + right * across
    return (1 - down) * top + down * bottom


official.declare(
    "sadnet",
    SADNet,
    fields={
        "input_channel": "channels",
        "n_channel": "width",
        "offset_channel": "offsets",
        "deformable_groups": "groups",
    },
    same={"output_channel": "input_channel"},
)

register("sadnet", SADNet, family="rival")
register("sadnet_xs", SADNet, family="rival", width=16, offsets=8)
