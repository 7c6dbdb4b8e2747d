"""How far noise is from white Gaussian noise: Wasserstein-1 distances, differentiable.

After Ha et al. (arXiv 2412.04727). Channels are compared each on its own, over the
whole batch.
"""

import jax
import jax.numpy as jnp
from jax import Array


def distance(a: Array, b: Array) -> Array:  # [B, H, W, C] twice -> [C]
    """W1 of the values in each channel: the mean gap of the sorted ones. Degree 1."""
    if a.shape != b.shape:  # subtraction would broadcast
        raise ValueError(f"shapes differ: {a.shape} and {b.shape}")
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


def from_gaussian(error: Array, key: Array, spectrum_weight: float) -> Array:  # -> []
    """The distance of `error` from white Gaussian noise, in space and in frequency."""
    ideal = gaussian_like(error, key)
    in_space = distance(error, ideal).sum()
    in_frequency = distance(spectrum(error), spectrum(ideal)).sum()
    return in_space + spectrum_weight * in_frequency
