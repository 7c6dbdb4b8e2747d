"""3x3 convolutions with 16 products instead of 36: Winograd's F(2x2, 3x3).

A tile of 2x2 outputs sees 4x4 inputs. Inputs and kernel are transformed to a 4x4 basis
in which the convolution is a product (Winograd 1980; Lavin & Gray, CVPR 2016): for each
of the 16 entries, one matrix product over the channels, for all tiles at once. Both
gradients are products in the same basis. The transform has only the factors 1 and 1/2,
so powers of two stay exact. The rounding of a large value, or a NaN, affects all that
its tile sees, not only its 3x3 neighbours.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

STEP = 2  # outputs of a tile along an axis


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(
    x: Array, kernel: Array, precision: str | None
) -> Array:  # [B, H, W, I], [3, 3, I, O] -> [B, H, W, O]
    """The zero-padded convolution. Degree 1 in `x` and in `kernel`."""
    filters = _transform_kernel(kernel)
    products = _multiply(_transform_inputs(x), filters, (5,), (2,), precision)
    return _read_outputs(products)[:, : x.shape[1], : x.shape[2]]


def _forward(x, kernel, precision):
    return convolve(x, kernel, precision), (x, kernel)


def _backward(precision, saved, cotangent):
    x, kernel = saved
    height, width = x.shape[1:3]
    # Towards the input, the convolution of the cotangent with the kernel turned round:
    # which has its first and last filters exchanged. Everything else is, instead.
    seen = _transform_inputs(cotangent, _from_inputs_turned)
    back = _multiply(seen, _transform_kernel(kernel), (5,), (3,), precision)
    back = _read_outputs(back, _to_outputs_turned)[:, :height, :width]
    inputs, outputs = _transform_inputs(x), _transform_cotangent(cotangent)
    pixels = (2, 3, 4)
    products = _multiply(inputs, outputs, pixels, pixels, precision)
    return back, _read_kernel(products)


convolve.defvjp(_forward, _backward)


def _multiply(a, b, a_axes, b_axes, precision):
    """Sums products over the axes; the first two axes of both are the basis."""
    dimensions = ((a_axes, b_axes), ((0, 1), (0, 1)))
    return lax.dot_general(a, b, dimensions, precision=precision)


# Changes of basis along one axis. `_to_kernel` is the transpose of `_from_kernel`,
# `_from_outputs` that of `_to_outputs`.


def _from_inputs(a, b, c, d):
    return a - c, b + c, c - b, b - d


def _from_inputs_turned(a, b, c, d):
    return b - d, b + c, c - b, a - c


def _from_kernel(a, b, c):
    return a, (a + b + c) / 2, (a - b + c) / 2, c


def _to_kernel(a, b, c, d):
    return a + (b + c) / 2, (b - c) / 2, (b + c) / 2 + d


def _to_outputs(a, b, c, d):
    return a + b + c, b - c - d


def _to_outputs_turned(a, b, c, d):
    return d + b + c, b - c - a


def _from_outputs(a, b):
    return a, a + b, a - b, -b


# The same along both axes.


def _transform_inputs(x: Array, change: Callable = _from_inputs) -> Array:
    """[B, H, W, C] -> [4, 4, B, tiles, tiles, C]."""
    odd_height, odd_width = (side % STEP for side in x.shape[1:3])
    x = jnp.pad(x, ((0, 0), (1, 1 + odd_height), (1, 1 + odd_width), (0, 0)))
    rows = _change(change, _see(x, 1), 0)
    return _change(change, _see(rows, 3), 1)


def _see(x: Array, axis: int) -> list[Array]:
    """Along an axis, the four pixels that each tile sees."""
    last = x.shape[axis] - 4  # where the last tile begins
    return [lax.slice_in_dim(x, k, k + last + 1, STEP, axis) for k in range(4)]


def _make_even(x: Array) -> Array:  # [B, H, W, C] -> [B, H or H + 1, W or W + 1, C]
    height, width = x.shape[1:3]
    return jnp.pad(x, ((0, 0), (0, height % STEP), (0, width % STEP), (0, 0)))


def _transform_kernel(kernel: Array) -> Array:  # [3, 3, I, O] -> [4, 4, I, O]
    rows = _change(_from_kernel, _split(kernel, 0), 0)
    return _change(_from_kernel, _split(rows, 1), 1)


def _read_outputs(y: Array, change: Callable = _to_outputs) -> Array:
    """[4, 4, B, tiles, tiles, C] -> [B, H, W, C]."""
    y = _change(change, _split(y, 0), 3)
    y = _change(change, _split(y, 0), 4)
    batch, rows, _, columns, _, channels = y.shape
    return y.reshape(batch, STEP * rows, STEP * columns, channels)


def _transform_cotangent(y: Array) -> Array:  # as _transform_inputs
    y = _make_even(y)
    rows = _change(_from_outputs, (y[:, 0::STEP], y[:, 1::STEP]), 0)
    return _change(_from_outputs, (rows[:, :, :, 0::STEP], rows[:, :, :, 1::STEP]), 1)


def _read_kernel(y: Array) -> Array:  # [4, 4, I, O] -> [3, 3, I, O]
    rows = _change(_to_kernel, _split(y, 0), 0)
    return _change(_to_kernel, _split(rows, 1), 1)


def _change(change: Callable, parts: Sequence[Array], axis: int) -> Array:
    return jnp.stack(change(*parts), axis)


def _split(x: Array, axis: int) -> list[Array]:
    return [lax.index_in_dim(x, k, axis, False) for k in range(x.shape[axis])]
