"""Homogeneous primitives: the convolution, padding, the mean of an image."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sevnet_jax.models import tokens
from sevnet_jax.models.cpu import convolution


def use_precision(precision: str | None) -> contextlib.AbstractContextManager[None]:
    """A context in which products have a precision; None leaves it as it is."""
    # To JAX, None would be the precision of nobody's choice.
    if precision is None:
        return contextlib.nullcontext()
    return jax.default_matmul_precision(precision)


def convolve(
    x: Array, kernel: Array, stride: int = 1, transposed: bool = False
) -> Array:  # [B, H, W, I], [h, w, I, O] -> [B, H', W', O]
    """The bias-free convolution of `x`; every convolution of the models is this one.

    Degree 1 in `x` and in `kernel`. Borders are zero-padded so that H' = H / stride, or
    H * stride if transposed.
    """
    check_images(x)
    if x.shape[-1] != kernel.shape[2]:
        raise ValueError(
            f"the kernel {kernel.shape} takes {kernel.shape[2]} channels, got an input "
            f"of shape {x.shape}"
        )
    # Asked for here: the gradient is traced later, when the context may have changed.
    # (JAX makes the attributes of its config at run time.)
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined,unused-ignore]
    return convolution.convolve(
        x, kernel.astype(x.dtype), stride, transposed, precision
    )


def pad_to_multiple(x: Array, multiple: int) -> Array:  # [B, H, W, C] -> [B, H', W', C]
    """`x` extended at the bottom and right by reflection, or by its edge if too short.

    Degree 1. NumPy arrays stay such, of whatever type.
    """
    pad = np.pad if isinstance(x, np.ndarray) else jnp.pad
    for axis in (1, 2):
        side = x.shape[axis]
        missing = -side % multiple
        if missing:
            widths = [(0, 0)] * x.ndim
            widths[axis] = (0, missing)
            x = pad(x, widths, mode="reflect" if missing < side else "edge")
    return x


def image_mean(x: Array) -> Array:  # [B, H, W, C] -> [B, 1, 1, 1]
    """Each image's mean over its finite values, in float32 or wider. Degree 1.

    A NaN or infinite pixel then spoils its neighbourhood, not the whole image.
    """
    x = tokens.widen(x)
    return x.mean((1, 2, 3), keepdims=True, where=jnp.isfinite(x))


def check_features(x: Array) -> None:
    """Raises ValueError unless `x` is a floating-point array with a channel axis."""
    if not isinstance(x, jax.Array | np.ndarray):
        raise ValueError(f"expected an array, got {type(x).__name__}")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(
            f"expected floating-point images, got {x.dtype}; convert them first, for "
            "example with x.astype('float32') / 255"
        )
    if not x.ndim:
        raise ValueError("expected an array with channels last, got a scalar")


def check_images(x: Array) -> None:
    """Raises ValueError unless `x` is a batch of floating-point images."""
    check_features(x)
    if x.ndim != 4:
        hint = "; add the batch axis with x[None]" if x.ndim == 3 else ""
        raise ValueError(
            f"expected [batch, height, width, channels], got {x.shape}{hint}"
        )
    if 0 in x.shape[1:]:
        raise ValueError(f"expected at least one pixel and one channel, got {x.shape}")
