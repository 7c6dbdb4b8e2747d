"""A vector of channels beside images, with a gradient that is fast on each platform.

The gradient is a sum over all pixels. XLA's CPU compiler takes it channel by channel,
with strides through the memory; as a product with ones it takes a fraction of the time.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array, lax


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def spread(vector: Array, shape: tuple[int, ...]) -> Array:  # [C] -> [..., C]
    """The vector, repeated for every pixel of `shape`. Degree 1."""
    return jnp.broadcast_to(vector.reshape((1,) * (len(shape) - 1) + (-1,)), shape)


def _forward(vector, shape):
    return spread(vector, shape), None


def _backward(shape, _, cotangent):
    return (lax.platform_dependent(cotangent, cpu=_sum_by_product, default=_sum),)


spread.defvjp(_forward, _backward)


@jax.jit
def _sum(x):
    return x.sum(range(x.ndim - 1))


@jax.jit
def _sum_by_product(x):
    pixels = math.prod(x.shape[:-1])
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return jnp.dot(
        jnp.ones(pixels, x.dtype),
        x.reshape(pixels, x.shape[-1]),
        precision="highest",
        preferred_element_type=wide,
    ).astype(x.dtype)
