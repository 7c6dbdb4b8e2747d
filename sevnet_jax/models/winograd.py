"""3x3 convolutions with 16 products where 36 are usual: Winograd's F(2x2, 3x3).

A tile of 2x2 outputs sees 4x4 inputs. Inputs and kernel are taken to a basis of 4x4
in which the convolution is a product (Winograd 1980; Lavin & Gray, CVPR 2016): for
each of the 16 one matrix product over the channels, of all tiles at once. Both
gradients are products in the same basis. It has the factors 1 and 1/2 only, so powers
of two stay exact.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

STEP = 2  # outputs of a tile along an axis
SEEN = 4  # inputs of a tile along an axis
TURNED = (3, 1, 2, 0)  # where the basis has what a kernel turned round would have

Grid = Sequence[Sequence[Array]]  # rows of arrays of one shape


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(
    x: Array, kernel: Array, precision: str | None
) -> Array:  # [B, H, W, I], [3, 3, I, O] -> [B, H, W, O]
    """The zero-padded convolution. Degree 1 in `x` and in `kernel`."""
    return _apply(x, _on_both_axes(_from_kernel, kernel), 0, precision)


def _forward(x, kernel, precision):
    return convolve(x, kernel, precision), (x, kernel)


def _backward(precision, saved, cotangent):
    x, kernel = saved
    filters = _on_both_axes(_from_kernel, kernel)
    turned = [[filters[row][column] for column in TURNED] for row in TURNED]
    products = _pair(
        lambda v, m: lax.dot_general(
            v, m, (((0, 1, 2), (0, 1, 2)), ((), ())), precision
        ),
        _on_both_axes(_from_inputs, _cut_inputs(x)),
        _on_both_axes(_from_outputs, _cut_outputs(cotangent)),
    )
    gradient = _on_both_axes(_to_kernel, products)
    return (
        _apply(cotangent, turned, 1, precision),
        jnp.stack([jnp.stack(row) for row in gradient]),
    )


convolve.defvjp(_forward, _backward)


def _apply(x: Array, filters: Grid, axis: int, precision: str | None) -> Array:
    """Products over the channels, which the filters have on that axis."""
    products = _pair(
        lambda v, f: lax.dot_general(v, f, (((3,), (axis,)), ((), ())), precision),
        _on_both_axes(_from_inputs, _cut_inputs(x)),
        filters,
    )
    tiles = _on_both_axes(_to_outputs, products)
    y = jnp.stack([jnp.stack(row, axis=3) for row in tiles], axis=2)
    batch, rows, _, columns, _, channels = y.shape
    y = y.reshape(batch, STEP * rows, STEP * columns, channels)
    return y[:, : x.shape[1], : x.shape[2]]


def _cut_inputs(x: Array) -> Grid:
    """[B, H, W, C] -> 4x4 arrays [B, tiles, tiles, C]: what each tile has there."""
    height, width = x.shape[1:3]
    x = jnp.pad(x, ((0, 0), (1, 1 + height % STEP), (1, 1 + width % STEP), (0, 0)))
    last = (x.shape[1] - SEEN, x.shape[2] - SEEN)  # where the last tile begins
    return [
        [
            x[:, a : a + last[0] + 1 : STEP, b : b + last[1] + 1 : STEP]
            for b in range(SEEN)
        ]
        for a in range(SEEN)
    ]


def _cut_outputs(y: Array) -> Grid:
    """[B, H, W, C] -> 2x2 arrays [B, tiles, tiles, C]."""
    height, width = y.shape[1:3]
    y = jnp.pad(y, ((0, 0), (0, height % STEP), (0, width % STEP), (0, 0)))
    return [[y[:, a::STEP, b::STEP] for b in range(STEP)] for a in range(STEP)]


def _on_both_axes(change: Callable, grid: Grid) -> Grid:
    """Applies a change of basis to the rows of a grid, then to its columns."""
    rows = [change(*row) for row in grid]
    columns = [change(*column) for column in zip(*rows, strict=True)]
    return list(zip(*columns, strict=True))


def _pair(product: Callable, first: Grid, second: Grid) -> Grid:
    return [
        [product(a, b) for a, b in zip(*rows, strict=True)]
        for rows in zip(first, second, strict=True)
    ]


# Along one axis; the last two are the transposes of `_to_outputs` and `_from_kernel`.


def _from_inputs(a, b, c, d):
    return a - c, b + c, c - b, b - d


def _from_kernel(a, b, c):
    return a, (a + b + c) / 2, (a - b + c) / 2, c


def _to_outputs(a, b, c, d):
    return a + b + c, b - c - d


def _from_outputs(a, b):
    return a, a + b, a - b, -b


def _to_kernel(a, b, c, d):
    return a + (b + c) / 2, (b - c) / 2, (b + c) / 2 + d
