"""The convolution, by the program that is fastest on each platform.

XLA's own convolution runs everywhere but on CPUs. There, XLA is slow for the gradient
of a kernel and for kernels as large as their stride: both are matrix products here.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

# Unfolded pixels that stay in a core's cache between their making and their use.
CHUNK_BYTES = 4 * 2**20

_LAYOUT = ("NHWC", "HWIO", "NHWC")


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def convolve(
    x: Array, kernel: Array, stride: int, transposed: bool, precision: str | None
) -> Array:  # [B, H, W, I], [h, w, I, O] -> [B, H', W', O]
    """Zero-padded; transposed, each pixel writes itself times the kernel."""
    return lax.platform_dependent(
        x,
        kernel,
        cpu=functools.partial(_convolve_on_cpu, stride, transposed, precision),
        default=functools.partial(_convolve_by_xla, stride, transposed, precision),
    )


def _forward(x, kernel, stride, transposed, precision):
    return convolve(x, kernel, stride, transposed, precision), (x, kernel)


def _backward(stride, transposed, precision, saved, cotangent):
    static = (stride, transposed, precision)
    return lax.platform_dependent(
        *saved,
        cotangent,
        cpu=functools.partial(_differentiate_on_cpu, *static),
        default=functools.partial(_differentiate, _convolve_by_xla, *static),
    )


convolve.defvjp(_forward, _backward)


def _differentiate(program, stride, transposed, precision, x, kernel, cotangent):
    """The two gradients of `program`, left to JAX."""
    fn = functools.partial(program, stride, transposed, precision)
    return jax.vjp(fn, x, kernel)[1](cotangent)


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


def _convolve_on_cpu(stride, transposed, precision, x, kernel):
    size, _, inputs, outputs = kernel.shape
    batch, height, width, _ = x.shape
    covered = transposed or (height % size == 0 and width % size == 0)
    if size != stride or not covered:
        return _convolve_by_xla(stride, transposed, precision, x, kernel)
    product = functools.partial(jnp.matmul, precision=precision)
    if transposed:
        flat = kernel.transpose(2, 0, 1, 3).reshape(inputs, size * size * outputs)
        y = product(x, flat).reshape(batch, height, width, size, size, outputs)
        y = y.transpose(0, 1, 3, 2, 4, 5)
        return y.reshape(batch, height * size, width * size, outputs)
    y = x.reshape(batch, height // size, size, width // size, size, inputs)
    y = y.transpose(0, 1, 3, 2, 4, 5)
    y = y.reshape(batch, height // size, width // size, size * size * inputs)
    return product(y, kernel.reshape(size * size * inputs, outputs))


def _differentiate_on_cpu(stride, transposed, precision, x, kernel, cotangent):
    static = (stride, transposed, precision)
    if stride != 1 or kernel.shape[0] == 1:
        return _differentiate(_convolve_on_cpu, *static, x, kernel, cotangent)
    program = functools.partial(_convolve_by_xla, *static)
    (dx,) = jax.vjp(lambda x: program(x, kernel), x)[1](cotangent)
    return dx, _kernel_gradient(x, cotangent, kernel.shape[0], precision)


def _kernel_gradient(x, cotangent, size, precision):
    """The product of what each output pixel saw with its cotangent, chunk by chunk."""
    batch, height, width, inputs = x.shape
    outputs, taps = cotangent.shape[-1], size * size
    images, rows = _choose_chunk(x.shape, taps * x.dtype.itemsize)
    chunks_per_image = height // rows
    before = (size - 1) // 2
    padding = (before, size - 1 - before)
    padded = jnp.pad(x, ((0, 0), padding, padding, (0, 0)))

    def add_chunk(index, total):
        start = (index // chunks_per_image * images, index % chunks_per_image * rows)
        seen = lax.dynamic_slice(
            padded,
            (*start, 0, 0),
            (images, rows + size - 1, width + size - 1, inputs),
        )
        slopes = lax.dynamic_slice(
            cotangent, (*start, 0, 0), (images, rows, width, outputs)
        )
        columns = jnp.concatenate(
            [
                seen[:, i : i + rows, j : j + width]
                for i in range(size)
                for j in range(size)
            ],
            axis=-1,
        )
        return total + lax.dot_general(
            columns.reshape(-1, taps * inputs),
            slopes.reshape(-1, outputs),
            (((0,), (0,)), ((), ())),
            precision=precision,
            preferred_element_type=total.dtype,
        )

    # A sum over so many pixels needs more bits than bfloat16 has.
    dtype = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
    total = jnp.zeros((taps * inputs, outputs), dtype)
    chunks = batch // images * chunks_per_image
    total = lax.fori_loop(0, chunks, add_chunk, total)
    return total.reshape(size, size, inputs, outputs).astype(x.dtype)


def _choose_chunk(shape, bytes_per_value):
    """How many images, or rows of one image, to unfold at once."""
    batch, height, width, inputs = shape
    row_bytes = width * inputs * bytes_per_value
    rows = _largest_divisor(height, CHUNK_BYTES // row_bytes)
    images = _largest_divisor(batch, CHUNK_BYTES // (row_bytes * height))
    return (images, height) if rows == height else (1, rows)


def _largest_divisor(number, limit):
    """The largest divisor of `number` that is at most `limit`, or 1."""
    return max(
        (d for d in range(1, number + 1) if number % d == 0 and d <= limit), default=1
    )
