"""3x3 convolutions with 36 products instead of 144: Winograd's F(4x4, 3x3).

A tile of 4x4 outputs sees 6x6 inputs. Inputs and kernel are transformed to a 6x6 basis
in which the convolution is a product (Winograd 1980; Lavin & Gray, CVPR 2016): for each
of the 36 entries, one matrix product over the channels, for all tiles at once. Both
gradients are products in the same basis. The transforms are fixed and linear, so powers
of two stay exact. The rounding of a large value, or a NaN, affects all outputs of the
tiles that see it, up to 8x8 pixels, not only its 3x3 neighbours.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

STEP = 4  # outputs of a tile along an axis
SEEN = STEP + 2  # inputs of a tile along an axis

# Along an axis, tiles and kernels are polynomials, known by their values at 0, at plus
# and minus A, at plus and minus B, and by their last coefficient. The usual points, 1
# and 2, lose four times as much by rounding: their powers are farther from 1.
A, B = 0.75, 1.5
AA, BB = A * A, B * B
_AT_A, _AT_B = 1 / (2 * AA * (AA - BB)), 1 / (2 * BB * (BB - AA))
FROM_KERNEL = np.array(  # 3 values to 6
    [
        [1 / (AA * BB), 0, 0],
        [_AT_A, _AT_A * A, _AT_A * AA],
        [_AT_A, -_AT_A * A, _AT_A * AA],
        [_AT_B, _AT_B * B, _AT_B * BB],
        [_AT_B, -_AT_B * B, _AT_B * BB],
        [0, 0, 1],
    ]
)
TO_OUTPUTS = np.array(  # 6 values to 4
    [
        [1, 1, 1, 1, 1, 0],
        [0, A, -A, B, -B, 0],
        [0, AA, AA, BB, BB, 0],
        [0, A * AA, -A * AA, B * BB, -B * BB, 1],
    ]
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def convolve(
    x: Array, kernel: Array, precision: str | None
) -> Array:  # [B, H, W, I], [3, 3, I, O] -> [B, H, W, O]
    """The zero-padded convolution. Degree 1 in `x` and in `kernel`."""
    batch, height, width, _ = x.shape
    outputs = kernel.shape[-1]
    rows, columns = -(-height // STEP), -(-width // STEP)
    filters = _change(FROM_KERNEL, kernel)
    products = _multiply(_transform_inputs(x), filters, (3, 2), precision)
    tiles = _change(TO_OUTPUTS, products)  # [4, 4, N, O]
    y = tiles.reshape(STEP, STEP, batch, rows, columns, outputs)
    y = y.transpose(2, 3, 0, 4, 1, 5)
    y = y.reshape(batch, STEP * rows, STEP * columns, outputs)
    return y[:, :height, :width]


def _forward(x, kernel, precision):
    return convolve(x, kernel, precision), (x, kernel)


def _backward(precision, saved, cotangent):
    x, kernel = saved
    turned = kernel[::-1, ::-1].swapaxes(2, 3)
    by_x = convolve(cotangent, turned, precision)
    tiles = _change(TO_OUTPUTS.T, _split_tiles(cotangent))
    products = _multiply(_transform_inputs(x), tiles, (2, 2), precision)
    return by_x, _change(FROM_KERNEL.T, products)


convolve.defvjp(_forward, _backward)


def _multiply(a, b, axes, precision):
    """Sums products over an axis of each; the first two axes of both are the basis."""
    dimensions = (((axes[0],), (axes[1],)), ((0, 1), (0, 1)))
    return lax.dot_general(a, b, dimensions, precision=precision)


def _change(matrix: np.ndarray, x: Array) -> Array:  # [m, m, ...] -> [n, n, ...]
    """Both of the first axes by `matrix`, as one product, which compiles soonest."""
    n, m = matrix.shape
    both = np.kron(matrix, matrix).astype(x.dtype)
    y = jnp.matmul(both, x.reshape(m * m, -1), precision="highest")
    return y.reshape(n, n, *x.shape[2:])


# All tiles of all images are one axis, N: with three axes, XLA would transpose them for
# the gradient of the kernel.


def _split_tiles(y: Array) -> Array:  # [B, H, W, C] -> [4, 4, N, C]
    y = _pad(y, border=0)
    batch, height, width, channels = y.shape
    y = y.reshape(batch, height // STEP, STEP, width // STEP, STEP, channels)
    return y.transpose(2, 4, 0, 1, 3, 5).reshape(STEP, STEP, -1, channels)


def _transform_inputs(x: Array) -> Array:  # [B, H, W, C] -> [6, 6, N, C]
    """By sums: tiles overlap, and a product would need them side by side first."""
    x = _pad(x, border=1)
    rows = jnp.stack(_from_inputs(*_see(x, 1)), 0)
    seen = jnp.stack(_from_inputs(*_see(rows, 3)), 1)
    return seen.reshape(SEEN, SEEN, -1, x.shape[-1])


def _from_inputs(a, b, c, d, e, f):
    even_a, odd_a = e - BB * c, A * (d - BB * b)
    even_b, odd_b = e - AA * c, B * (d - AA * b)
    return (
        AA * BB * a - (AA + BB) * c + e,
        even_a + odd_a,
        even_a - odd_a,
        even_b + odd_b,
        even_b - odd_b,
        AA * BB * b - (AA + BB) * d + f,
    )


def _see(x: Array, axis: int) -> list[Array]:
    """Along an axis, the pixels that each tile sees."""
    last = x.shape[axis] - SEEN  # where the last tile begins
    return [lax.slice_in_dim(x, k, k + last + 1, STEP, axis) for k in range(SEEN)]


def _pad(x: Array, border: int) -> Array:
    """`x` with a border of zeros, and more behind it to fill the last tiles."""
    widths = [(border, border + -side % STEP) for side in x.shape[1:3]]
    return jnp.pad(x, ((0, 0), *widths, (0, 0)))
