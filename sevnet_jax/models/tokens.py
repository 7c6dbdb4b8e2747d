"""Statistics of tokens, and the two products that are scaled by them.

A token is the channel vector of one pixel. Statistics are computed in float32 or wider,
so bfloat16 features keep the law as exactly as float32 ones. The products have custom
gradients, because JAX's would sum over the channels twice as often.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

# Relative to the token's own power, so that it scales with it: an absolute epsilon
# would take over for small inputs and break f(kx) = k f(x).
RELATIVE_EPSILON = 1e-6


def widen(x: Array) -> Array:
    """`x` in float32, or float64 if it is that already: statistics need the bits."""
    return x if x.dtype == jnp.float64 else x.astype(jnp.float32)


def moments(x: Array) -> tuple[Array, Array]:  # [..., C] -> [..., 1] twice
    """Mean and variance of each token, in float32 or wider. Degrees 1 and 2."""
    x = widen(x)
    mean = x.mean(-1, keepdims=True)
    return mean, jnp.square(x - mean).mean(-1, keepdims=True)


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


def normalize(x: Array) -> Array:  # [..., C] -> [..., C]
    """Tokens with zero mean and unit variance; zero tokens stay zero. Degree 0."""
    return _standardize(x)[0]


def _standardize(x):
    """Returns normalised tokens, and the mean and scale that made them so."""
    mean, variance = moments(x)
    scale = zero_safe_rsqrt(regularize(mean, variance))
    return ((widen(x) - mean) * scale).astype(x.dtype), mean, scale


@jax.custom_vjp
def modulate(x: Array, affine: Array) -> Array:  # [..., C], [..., 2C] -> [..., C]
    """`gamma * normalize(x) + beta`, `affine` being both, gamma first.

    Degree 0 in `x`, 1 in `affine`.
    """
    return _modulate_forward(x, affine)[0]


def _modulate_forward(x, affine):
    normalized, mean, scale = _standardize(x)
    gamma, beta = jnp.split(affine, 2, axis=-1)
    return gamma * normalized + beta, (x, gamma, mean, scale)


def _modulate_backward(saved, cotangent):
    x, gamma, mean, scale = saved
    normalized = (widen(x) - mean) * scale
    slope = widen(cotangent) * widen(gamma)  # by the normalised token
    # What changes the mean and what changes the scale is taken out of it.
    along_mean = slope.mean(-1, keepdims=True)
    along_scale = (slope * normalized).mean(-1, keepdims=True)
    moved = normalized + RELATIVE_EPSILON * (normalized + mean * scale)
    by_x = scale * (slope - along_mean - along_scale * moved)
    by_gamma = cotangent * normalized.astype(cotangent.dtype)
    by_affine = jnp.concatenate([by_gamma, cotangent], axis=-1)
    return by_x.astype(x.dtype), by_affine


modulate.defvjp(_modulate_forward, _modulate_backward)


@jax.custom_vjp
def gate(value: Array, signal: Array) -> Array:  # [..., C] twice -> [..., C]
    """`value * signal / sqrt(var value + var signal)`. Degree 1 in both together."""
    return _gate_forward(value, signal)[0]


def _gate_forward(value, signal):
    value_moments, signal_moments = moments(value), moments(signal)
    scale = zero_safe_rsqrt(regularize(*value_moments) + regularize(*signal_moments))
    # The signal is scaled first: a bare product would underflow at twice the exponent.
    gated = value * scale_by(signal, scale)
    return gated, (value, signal, value_moments[0], signal_moments[0], scale)


def _gate_backward(saved, cotangent):
    value, signal, value_mean, signal_mean, scale = saved
    wide_value, wide_signal, slope = map(widen, (value, signal, cotangent))
    # By the scale, times the scale: one factor of it with each that grows.
    along_scale = scale * (slope * wide_value * (wide_signal * scale)).mean(
        -1, keepdims=True
    )

    def by(wide, mean, other):
        centred = wide - mean
        moved = scale * (centred + RELATIVE_EPSILON * (centred + mean))
        return slope * (other * scale) - along_scale * moved

    by_value = by(wide_value, value_mean, wide_signal)
    by_signal = by(wide_signal, signal_mean, wide_value)
    return by_value.astype(value.dtype), by_signal.astype(signal.dtype)


gate.defvjp(_gate_forward, _gate_backward)


def scale_by(x: Array, scale: Array) -> Array:  # [..., C], [..., 1] -> [..., C]
    """`x * scale` in the precision of `scale`, in the type of `x`."""
    return (widen(x) * scale).astype(x.dtype)


def energy(x: Array) -> Array:  # [..., C] -> [..., 1]
    """Each token's variance plus a small part of its mean square. Degree 2."""
    return regularize(*moments(x))
