"""Layers that several rivals share, with PyTorch's conventions, channels last.

Parameters are float32 and cast where they are used; a layer computes in the type of its
input. Kernels and biases start uniform within 1 / sqrt(fan in), unless stated.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import ops, tokens
from sevnet_jax.models.cpu import channels, depthwise

Initializer = Callable[..., Any]


def check_lengths(network: nn.Module, **lengths: int) -> None:
    """Raises ValueError unless fields are tuples of so many entries, none negative.

    Others would not fail by themselves: what is too much is not looked at.
    """
    for name, length in lengths.items():
        entries = getattr(network, name)
        if len(entries) != length or any(entry < 0 for entry in entries):
            raise ValueError(
                f"{name} of this {type(network).__name__} must have {length} entries, "
                f"none negative; got {entries!r}"
            )


def uniform(fan_in: int) -> Initializer:
    """Returns PyTorch's default initialiser: uniform within 1 / sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)

    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def spread(vector: Array, x: Array) -> Array:  # [C], [..., C] -> as x
    """A vector of channels, ready to meet `x`: its type and its shape."""
    return channels.spread(vector.astype(x.dtype), x.shape)


def multiply(x: Array, matrix: Array) -> Array:  # [..., I], [I, O] -> [..., O]
    """The tokens of `x` times a matrix, as one product of two matrices. Degree 1.

    With more axes, XLA's CPU compiler would transpose `x` for the matrix's gradient.
    """
    y = x.reshape(-1, x.shape[-1]) @ matrix
    return y.reshape(*x.shape[:-1], matrix.shape[-1])


class Conv(nn.Module):
    """Convolution, zero-padded to keep the size unless told. Degree 1 without bias."""

    features: int
    size: int = 3
    stride: int = 1
    padding: int | None = None  # pixels per side; None: keeps the size at stride 1
    dilation: int = 1
    groups: int = 1
    bias: bool = True
    kernel_init: Initializer | None = None
    bias_init: Initializer | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H', W', features]
        shape = (self.size, self.size, x.shape[-1] // self.groups, self.features)
        default = uniform(math.prod(shape[:3]))
        kernel = self.param("kernel", self.kernel_init or default, shape, jnp.float32)
        y = self.convolve(x, kernel.astype(x.dtype))
        if self.bias:
            init = self.bias_init or default
            y += spread(self.param("bias", init, (self.features,), jnp.float32), y)
        return y

    def convolve(self, x: Array, kernel: Array) -> Array:
        """The product, by the fastest program that this project has for its kind."""
        same = self.dilation * (self.size - 1) // 2
        padding = same if self.padding is None else self.padding
        plain = self.dilation == 1 and self.groups == 1
        whole = x.shape[1] % self.stride == 0 == x.shape[2] % self.stride
        keeps = self.stride == 1 and self.size % 2 == 1 and padding == same
        tiles = self.stride == self.size and padding == 0 and whole
        if plain and self.size == self.stride == 1 and padding == 0:
            return multiply(x, kernel[0, 0])
        if plain and (keeps or tiles):
            return ops.convolve(x, kernel, self.stride)
        if keeps and self.dilation == 1 and self.groups == self.features == x.shape[-1]:
            return depthwise.convolve(x, kernel)
        return lax.conv_general_dilated(
            x,
            kernel,
            (self.stride, self.stride),
            [(padding, padding)] * 2,
            rhs_dilation=(self.dilation, self.dilation),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=self.groups,
        )


class Dense(nn.Module):
    """Linear map of each token. Degree 1 without bias."""

    features: int
    bias: bool = True
    kernel_init: Initializer | None = None
    bias_init: Initializer | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [..., C] -> [..., features]
        shape = (x.shape[-1], self.features)
        default = uniform(x.shape[-1])
        kernel = self.param("kernel", self.kernel_init or default, shape, jnp.float32)
        y = multiply(x, kernel.astype(x.dtype))
        if self.bias:
            init = self.bias_init or default
            y += spread(self.param("bias", init, (self.features,), jnp.float32), y)
        return y


# The start of Swin's linear maps, and of all that descend from it.
SwinDense = functools.partial(
    Dense,
    kernel_init=nn.initializers.normal(0.02),
    bias_init=nn.initializers.zeros,
)


class Upsample(nn.Module):
    """Transposed convolution 2x2 of stride 2. Degree 1 without bias.

    Its leaf `weight` keeps PyTorch's layout, [in, out, 2, 2].
    """

    features: int
    weight_init: Initializer | None = None
    bias_init: Initializer | None = None

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, 2H, 2W, features]
        shape = (x.shape[-1], self.features, 2, 2)
        default = uniform(4 * self.features)  # PyTorch takes the second axis for it
        weight = self.param("weight", self.weight_init or default, shape, jnp.float32)
        init = self.bias_init or default
        bias = self.param("bias", init, (self.features,), jnp.float32)
        matrix = weight.reshape(x.shape[-1], 4 * self.features)
        y = pixel_shuffle(multiply(x, matrix.astype(x.dtype)))
        return y + spread(bias, y)


class LayerNorm(nn.Module):
    """Tokens divided by their deviation, statistics in float32. Nearly degree 0.

    Not `centred`, the mean leaves the deviation only, not the token, and there is no
    bias: what Restormer calls "BiasFree".
    """

    eps: float = 1e-5
    centred: bool = True

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [..., C] -> [..., C]
        shape = (x.shape[-1],)
        scale = self.param("scale", nn.initializers.ones, shape, jnp.float32)
        y = normalize(tokens.widen(x), self.eps, self.centred)
        y *= spread(scale, y)
        if self.centred:
            bias = self.param("bias", nn.initializers.zeros, shape, jnp.float32)
            y += spread(bias, y)
        return y.astype(x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def normalize(x: Array, eps: float, centred: bool) -> Array:  # [..., C] -> [..., C]
    """Tokens divided by their deviation, without their mean if `centred`.

    Nearly degree 0. JAX's gradient would sum over the channels twice as often.
    """
    return _normalize_forward(x, eps, centred)[0]


def _normalize_forward(x, eps, centred):
    mean, variance = tokens.moments(x)
    scale = lax.rsqrt(variance + eps)
    return (x - mean if centred else x) * scale, (x, mean, scale)


def _normalize_backward(eps, centred, saved, cotangent):
    x, mean, scale = saved
    moved = (x - mean) * scale
    y = moved if centred else x * scale
    slope = cotangent - moved * (cotangent * y).mean(-1, keepdims=True)
    if centred:
        slope -= cotangent.mean(-1, keepdims=True)
    return (slope * scale,)


normalize.defvjp(_normalize_forward, _normalize_backward)


class Mlp(nn.Module):
    """Linear, GELU, linear. No degree."""

    hidden: int
    dense: Callable[..., nn.Module] = Dense

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [..., C] -> [..., C]
        y = gelu(self.dense(self.hidden, name="fc1")(x))
        return self.dense(x.shape[-1], name="fc2")(y)


def gelu(x: Array) -> Array:  # any shape
    """x times the normal distribution's share below x, not its tanh form. No degree.

    By erf as in PyTorch: JAX's, by erfc, takes four times as long on CPUs.
    """
    wide = tokens.widen(x)
    return (wide * (1 + lax.erf(wide * math.sqrt(0.5))) / 2).astype(x.dtype)


def halves(x: Array) -> tuple[Array, Array]:  # [..., 2C] -> [..., C] twice
    """The first and the second half of the channels. Degree 1."""
    first, second = jnp.split(x, 2, axis=-1)
    return first, second


def pixel_shuffle(x: Array, factor: int = 2) -> Array:  # [B,H,W,Cff] -> [B,fH,fW,C]
    """Channels spread over blocks of pixels, the channel the slow index. Degree 1."""
    b, h, w, c = x.shape
    x = x.reshape(b, h, w, c // factor**2, factor, factor)
    x = x.transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(b, h * factor, w * factor, c // factor**2)


def pixel_unshuffle(x: Array, factor: int = 2) -> Array:  # [B,fH,fW,C] -> [B,H,W,Cff]
    """The inverse of `pixel_shuffle`. Degree 1."""
    b, h, w, c = x.shape
    x = x.reshape(b, h // factor, factor, w // factor, factor, c)
    x = x.transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(b, h // factor, w // factor, c * factor**2)


def pad_zeros(x: Array, multiple: int) -> Array:  # [B, H, W, C] -> [B, H', W', C]
    """`x` with zeros at the bottom and right up to multiples. Degree 1.

    For reflection there is `ops.pad_to_multiple`.
    """
    bottom, right = -x.shape[1] % multiple, -x.shape[2] % multiple
    return jnp.pad(x, ((0, 0), (0, bottom), (0, right), (0, 0)))


def crop(x: Array, like: Array) -> Array:  # [B, H', W', C], [B, H, W, D] -> [B,H,W,C]
    """The top left of `x`, as large as `like`. Degree 1."""
    return x[:, : like.shape[1], : like.shape[2]]
