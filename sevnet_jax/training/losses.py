"""Losses. A new loss is a function and a line in LOSSES.

For translators there is also the distance of noise from white Gaussian noise, by
Wasserstein-1 distances, after Ha et al. (arXiv 2412.04727). Each channel is compared
separately, over the whole batch.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

CHARBONNIER_WIDTH = 1e-3  # of the range [0, 1]: rounds the corner of |x|
DECIBELS_FLOOR = 0.5 / 255  # errors below the rounding of 8 bit count for little


def l1(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """The mean absolute difference. Degree 1."""
    _check(restored, clean)
    return jnp.mean(jnp.abs(restored - clean))


def l2(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """The mean squared difference. Degree 2."""
    _check(restored, clean)
    return jnp.mean(jnp.square(restored - clean))


def charbonnier(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """A smooth absolute difference: quadratic within CHARBONNIER_WIDTH of zero."""
    _check(restored, clean)
    squares = jnp.square(restored - clean)
    return jnp.mean(jnp.sqrt(squares + CHARBONNIER_WIDTH**2))


def decibels(restored: Array, clean: Array) -> Array:  # [B, H, W, C] twice -> []
    """Minus the mean PSNR of the images: weak noise counts as much as strong noise.

    With the other losses, an image that was nearly clean hardly counts.
    """
    _check(restored, clean)
    squares = jnp.mean(jnp.square(restored - clean), axis=(1, 2, 3))
    return 10 * jnp.mean(jnp.log10(squares + DECIBELS_FLOOR**2))


LOSSES: dict[str, Callable[[Array, Array], Array]] = {
    "l1": l1,
    "l2": l2,
    "charbonnier": charbonnier,
    "decibels": decibels,
}


def wasserstein(a: Array, b: Array) -> Array:  # [B, H, W, C] twice -> [C]
    """W1 of the values in each channel: the mean gap of the sorted ones. Degree 1."""
    _check(a, b)
    a, b = (jnp.sort(x.reshape(-1, x.shape[-1]), axis=0) for x in (a, b))
    return jnp.mean(jnp.abs(a - b), axis=0)


def spectrum(x: Array) -> Array:  # [B, H, W, C] -> the same
    """The magnitudes of the un-normalised Fourier transform over space. Degree 1."""
    return jnp.abs(jnp.fft.fft2(x, axes=(1, 2)))


def gaussian_like(error: Array, key: Array) -> Array:  # [B, H, W, C] -> the same
    """White Gaussian noise with the mean and the deviation of all of `error`. Degree 1.

    Both stay part of the gradient. Where the error is constant the deviation is 0, and
    so is its gradient.
    """
    mean = error.mean()
    variance = jnp.square(error - mean).mean()
    flat = variance == 0
    deviation = jnp.where(flat, 0, jnp.sqrt(jnp.where(flat, 1, variance)))
    return deviation * jax.random.normal(key, error.shape, error.dtype) + mean


def distance_from_white(
    error: Array, key: Array, spectrum_weight: float
) -> Array:  # -> []
    """The distance of `error` from white Gaussian noise, in space and in frequency."""
    ideal = gaussian_like(error, key)
    in_space = wasserstein(error, ideal).sum()
    in_frequency = wasserstein(spectrum(error), spectrum(ideal)).sum()
    return in_space + spectrum_weight * in_frequency


def _check(a: Array, b: Array) -> None:
    if a.shape != b.shape:  # subtraction would broadcast
        raise ValueError(f"shapes differ: {a.shape} and {b.shape}")
