"""Estimates how long an image will take, before the work starts."""

import math
import time
from typing import Any

import jax
import jax.numpy as jnp
from jax import stages

SIDE = 2048  # of the image whose operations are counted: as large as tiles are
PRODUCT = 1024  # rows and columns of the matrices whose product is timed
# Of the speed of a matrix product; some is lost to the overlap of tiles.
REACHED = 0.75


def seconds_per_pixel(
    restore: stages.Wrapped, params: Any, channels: int
) -> float | None:
    """Returns about what one pixel costs on the default device.

    The operations of the jitted `restore(params, image)` at the speed of a product of
    matrices, timed here: nothing has to be compiled for it. None where JAX does not
    count operations before it compiles, as on GPUs and TPUs.
    """
    image = jax.ShapeDtypeStruct((SIDE, SIDE, channels), jnp.float32)
    costs = restore.lower(params, image).cost_analysis()
    if not costs:
        return None
    return costs["flops"] / SIDE**2 / (REACHED * _time_products())


def _time_products() -> float:
    """Operations a second, the best of three products."""
    matrix = jnp.ones((PRODUCT, PRODUCT))
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(matrix, matrix))
    best = math.inf
    for _ in range(3):
        began = time.perf_counter()
        jax.block_until_ready(product(matrix, matrix))
        best = min(best, time.perf_counter() - began)
    return 2 * PRODUCT**3 / best
