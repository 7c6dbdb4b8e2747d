"""The depth-wise convolution, by the program that is fastest on each platform.

XLA's own convolution runs everywhere. On CPUs it takes tens of times as long as the
same sum of shifted images, so CPUs use that sum, forward and backward.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_LAYOUT = ("NHWC", "HWIO", "NHWC")


@jax.custom_vjp
def convolve(x: Array, kernel: Array) -> Array:  # [B, H, W, C], [s, s, 1, C] -> as x
    """Each channel with its own kernel of odd size, zero-padded. Degree 1."""
    return lax.platform_dependent(x, kernel, cpu=_by_shifts, default=_by_xla)


def _forward(x, kernel):
    return convolve(x, kernel), (x, kernel)


def _backward(saved, cotangent):
    return lax.platform_dependent(
        *saved, cotangent, cpu=_differentiate_shifts, default=_differentiate_xla
    )


convolve.defvjp(_forward, _backward)


# All are jitted so that layers of one shape are traced once.


@jax.jit
def _by_xla(x, kernel):
    pad = kernel.shape[0] // 2
    return lax.conv_general_dilated(
        x,
        kernel,
        (1, 1),
        [(pad, pad)] * 2,
        dimension_numbers=_LAYOUT,
        feature_group_count=x.shape[-1],
    )


@jax.jit
def _differentiate_xla(x, kernel, cotangent):
    return jax.vjp(_by_xla, x, kernel)[1](cotangent)


@jax.jit
def _by_shifts(x, kernel):
    size, (height, width) = kernel.shape[0], x.shape[1:3]
    padded = _pad(x, size)
    terms = (
        padded[:, i : i + height, j : j + width]
        * kernel[i, j].reshape(1, 1, 1, -1).astype(padded.dtype)
        for i in range(size)
        for j in range(size)
    )
    return functools.reduce(jnp.add, terms).astype(x.dtype)


@jax.jit
def _differentiate_shifts(x, kernel, cotangent):
    size, (batch, height, width, channels) = kernel.shape[0], x.shape
    padded = _pad(x, size)

    # Row by row, which stays in the cache: one sum over all pixels a tap takes five
    # times as long. One array a tap, or XLA would copy all nine into one.
    def add_row(sums, row):
        rows = lax.dynamic_slice_in_dim(padded, row, size, axis=1)
        slope = lax.dynamic_index_in_dim(cotangent, row, axis=1, keepdims=False)
        slope = slope.astype(padded.dtype)
        return [
            total + rows[:, i, j : j + width] * slope
            for total, (i, j) in zip(sums, np.ndindex(size, size), strict=True)
        ], None

    zeros = [jnp.zeros((batch, width, channels), padded.dtype)] * size**2
    sums, _ = lax.scan(add_row, zeros, jnp.arange(height))
    towards_kernel = jnp.stack([total.sum((0, 1)) for total in sums])
    towards_kernel = towards_kernel.reshape(kernel.shape).astype(kernel.dtype)
    return _by_shifts(cotangent, kernel[::-1, ::-1]), towards_kernel


def _pad(x, size):
    """`x` with the zeros that a kernel meets around it, in float32 or wider."""
    pad = size // 2
    wide = x if x.dtype == jnp.float64 else x.astype(jnp.float32)
    return jnp.pad(wide, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
