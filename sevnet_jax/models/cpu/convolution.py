"""The convolution, by the program that is fastest on each platform.

XLA's own convolution runs everywhere. On CPUs, a kernel as large as its stride is a
matrix product, and 3x3 kernels of many channels use Winograd's products. Each platform
differentiates its own program. For XLA's convolutions to be fast on CPUs, compile with
`sevnet_jax.runtime.compiler_options()`.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from sevnet_jax.models.cpu import winograd
from sevnet_jax.models.cpu.pixel_shuffle import depth_to_space, space_to_depth

_LAYOUT = ("NHWC", "HWIO", "NHWC")
# Winograd's products save time where input times output channels are at least the
# square of this: with fewer, the changes of basis cost what the products save. They
# take longer to compile, so where no gradients are asked for they must save more.
WINOGRAD_CHANNELS = 64
WINOGRAD_CHANNELS_IN_TRAINING = 48


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def convolve(
    x: Array, kernel: Array, stride: int, transposed: bool, precision: str | None
) -> Array:  # [B, H, W, I], [h, w, I, O] -> [B, H', W', O]
    """Zero-padded; transposed, each pixel writes itself times the kernel."""
    return _convolve(x, kernel, stride, transposed, precision)


# All three are jitted so that layers of one shape are traced once.


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _convolve(x, kernel, stride, transposed, precision):
    static = (stride, transposed, precision)
    return lax.platform_dependent(
        x,
        kernel,
        cpu=functools.partial(_convolve_on_cpu, *static, channels=WINOGRAD_CHANNELS),
        default=functools.partial(_convolve_by_xla, *static),
    )


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _forward(x, kernel, stride, transposed, precision):
    static = (stride, transposed, precision)
    y = lax.platform_dependent(
        x,
        kernel,
        cpu=functools.partial(_train_on_cpu, *static),
        default=functools.partial(_convolve_by_xla, *static),
    )
    return y, (x, kernel)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _backward(stride, transposed, precision, saved, cotangent):
    static = (stride, transposed, precision)
    return lax.platform_dependent(
        *saved,
        cotangent,
        cpu=functools.partial(_differentiate, _train_on_cpu, *static),
        default=functools.partial(_differentiate, _convolve_by_xla, *static),
    )


convolve.defvjp(_forward, _backward)


def _differentiate(program, stride, transposed, precision, x, kernel, cotangent):
    """The two gradients of `program`, left to JAX."""
    fn = functools.partial(program, stride, transposed, precision)
    return jax.vjp(fn, x, kernel)[1](cotangent)


def _train_on_cpu(*args):
    return _convolve_on_cpu(*args, channels=WINOGRAD_CHANNELS_IN_TRAINING)


def _convolve_by_xla(stride, transposed, precision, x, kernel):
    strides = (stride, stride)
    if transposed:
        return lax.conv_transpose(
            x,
            kernel[::-1, ::-1],
            strides,
            "SAME",
            dimension_numbers=_LAYOUT,
            precision=precision,
        )
    return lax.conv_general_dilated(
        x, kernel, strides, "SAME", dimension_numbers=_LAYOUT, precision=precision
    )


def _convolve_on_cpu(stride, transposed, precision, x, kernel, *, channels):
    size, other, inputs, outputs = kernel.shape
    if size != other:
        return _convolve_by_xla(stride, transposed, precision, x, kernel)
    height, width = x.shape[1:3]
    usual = (size, stride, transposed, x.dtype) == (3, 1, False, jnp.float32)
    known = all(isinstance(side, int) for side in x.shape)  # not symbols
    if usual and known and inputs * outputs >= channels * channels:
        return winograd.convolve(x, kernel, precision)
    covered = transposed or (height % size == 0 and width % size == 0)
    if size != stride or not covered:
        return _convolve_by_xla(stride, transposed, precision, x, kernel)

    def product(tokens, matrix):
        # As two matrices: with more axes XLA transposes tokens for the gradient.
        rows = tokens.reshape(-1, tokens.shape[-1])
        y = jnp.matmul(rows, matrix, precision=precision)
        return y.reshape(*tokens.shape[:-1], matrix.shape[-1])

    if transposed:
        flat = kernel.transpose(2, 0, 1, 3).reshape(inputs, size * size * outputs)
        return depth_to_space(product(x, flat), size)
    flat = kernel.reshape(size * size * inputs, outputs)
    return product(space_to_depth(x, size), flat)
