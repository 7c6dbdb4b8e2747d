"""Distances against SciPy and NumPy, and gradients that stay finite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from sevnet_jax.training import losses

SHAPE = (2, 8, 6, 3)
# One program each, not one a step; the weight of the spectrum is a constant in it.
gaussian_like = jax.jit(losses.gaussian_like)
distance_from_white = jax.jit(losses.distance_from_white, static_argnums=2)


@pytest.fixture
def pair(rng):
    return rng.normal(size=(2, *SHAPE)).astype(np.float32)


def test_distance_is_scipys(pair):
    a, b = pair
    found = losses.wasserstein(a, 2 * b + 1)
    for channel in range(3):
        expected = stats.wasserstein_distance(
            a[..., channel].ravel(), (2 * b + 1)[..., channel].ravel()
        )
        assert float(found[channel]) == pytest.approx(expected, rel=1e-5)


def test_distance_does_not_see_the_order(pair, rng):
    a, _ = pair
    shuffled = rng.permuted(a, axis=1)
    np.testing.assert_array_equal(losses.wasserstein(a, shuffled), 0)


def test_spectrum_is_numpys(pair):
    expected = np.abs(np.fft.fft2(pair[0], axes=(1, 2)))
    np.testing.assert_allclose(losses.spectrum(pair[0]), expected, rtol=1e-4)


def test_the_ideal_has_the_errors_mean_and_deviation(rng):
    error = (0.3 + 0.1 * rng.uniform(size=(4, 64, 64, 3))).astype(np.float32)
    ideal = gaussian_like(error, jax.random.key(0))
    assert float(ideal.mean()) == pytest.approx(float(error.mean()), abs=1e-3)
    assert float(ideal.std()) == pytest.approx(float(error.std()), rel=0.02)


def test_statistics_of_the_ideal_are_part_of_the_gradient(pair):
    """Moving all of the error moves the ideal along, widening it widens the ideal."""
    key = jax.random.key(0)
    error = jnp.asarray(pair[0])

    def ideal(shift, factor):
        return gaussian_like(factor * error + shift, key)

    by_shift = jax.jit(jax.grad(lambda shift: ideal(shift, 1.0).mean()))(0.0)
    by_factor = jax.jit(jax.grad(lambda factor: ideal(0.0, factor).std()))(1.0)
    assert float(by_shift) == pytest.approx(1, abs=1e-5)
    assert float(by_factor) == pytest.approx(float(ideal(0.0, 1.0).std()), rel=1e-4)


def test_white_gaussian_noise_is_nearer_than_other_noise(rng):
    white = rng.normal(size=(4, 64, 64, 3)).astype(np.float32)
    blurred = white + np.roll(white, 1, 1) + np.roll(white, 1, 2)
    blurred /= blurred.std()
    uniform = rng.uniform(-(3**0.5), 3**0.5, white.shape).astype(np.float32)
    key = jax.random.key(1)
    in_space = [
        float(distance_from_white(e, key, 0.0)) for e in (white, blurred, uniform)
    ]
    both = [
        float(distance_from_white(e, key, 0.002)) for e in (white, blurred, uniform)
    ]
    assert in_space[2] > 5 * in_space[0]  # another histogram
    assert both[1] - in_space[1] > 5 * (both[0] - in_space[0])  # another spectrum


def test_the_distance_is_homogeneous(pair):
    key = jax.random.key(0)
    once = distance_from_white(pair[0], key, 0.002)
    np.testing.assert_array_equal(
        distance_from_white(8 * pair[0], key, 0.002), 8 * once
    )


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_gradients_are_finite_at_ties(value):
    constant = jnp.full(SHAPE, value)
    distance = lambda e: distance_from_white(e, jax.random.key(0), 0.002)  # noqa: E731
    slope = jax.jit(jax.grad(distance))(constant)
    assert np.isfinite(slope).all()


def test_shapes_must_agree(pair):
    with pytest.raises(ValueError, match="shapes differ"):
        losses.wasserstein(pair[0], pair[1][:1])
