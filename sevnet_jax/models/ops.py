"""Homogeneous primitives: the one convolution, token statistics, resampling, padding.

A token is the channel vector of one pixel. Statistics are taken in float32 at least,
so that bfloat16 features keep the law as exactly as float32 ones do.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sevnet_jax.models import convolution

# Relative to the token's own power, so that it scales with it: an absolute epsilon
# would take over for small inputs and break f(kx) = k f(x).
RELATIVE_EPSILON = 1e-6


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
    precision = jax.config.jax_default_matmul_precision
    return convolution.convolve(
        x, kernel.astype(x.dtype), stride, transposed, precision
    )


def widen(x: Array) -> Array:
    """`x` in float32, or float64 if it is that already: statistics need the bits."""
    return x if x.dtype == jnp.float64 else x.astype(jnp.float32)


def token_moments(x: Array) -> tuple[Array, Array]:  # [..., C] -> [..., 1] twice
    """Mean and variance of each token, in float32 or wider. Degrees 1 and 2."""
    x = widen(x)
    mean = x.mean(-1, keepdims=True)
    return mean, jnp.square(x - mean).mean(-1, keepdims=True)


def token_energy(x: Array) -> Array:  # [..., C] -> [..., 1]
    """Each token's variance plus a small part of its mean square. Degree 2."""
    mean, variance = token_moments(x)
    return regularize(mean, variance)


def regularize(mean: Array, variance: Array) -> Array:
    """`variance + eps * mean square`: zero only where the whole token is. Degree 2."""
    return variance + RELATIVE_EPSILON * (variance + jnp.square(mean))


def zero_safe_rsqrt(energy: Array) -> Array:
    """`1 / sqrt(energy)`, and 0 with a zero gradient where `energy` is 0. Degree -1/2.

    The inner `where` keeps the infinite slope at 0 out of the gradient; comparing with
    `== 0` rather than `> 0` lets a NaN through instead of hiding it.
    """
    zero = energy == 0
    return jnp.where(zero, 0, lax.rsqrt(jnp.where(zero, 1, energy)))


def normalize_tokens(x: Array) -> Array:  # [..., C] -> [..., C]
    """Tokens with zero mean and unit variance; zero tokens stay zero. Degree 0."""
    mean, variance = token_moments(x)
    scale = zero_safe_rsqrt(regularize(mean, variance))
    return ((widen(x) - mean) * scale).astype(x.dtype)


def space_to_depth(
    x: Array, factor: int
) -> Array:  # [B, H, W, C] -> [B, H/f, W/f, ffC]
    """Blocks of `factor` x `factor` pixels, each laid into one token. Degree 1."""
    b, h, w, c = x.shape
    x = x.reshape(b, h // factor, factor, w // factor, factor, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(
        b, h // factor, w // factor, factor * factor * c
    )


def depth_to_space(x: Array, factor: int) -> Array:  # [B, H, W, ffC] -> [B, fH, fW, C]
    """The inverse of `space_to_depth`. Degree 1."""
    b, h, w, c = x.shape
    x = x.reshape(b, h, w, factor, factor, c // factor**2)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(
        b, h * factor, w * factor, c // factor**2
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
    x = widen(x)
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
