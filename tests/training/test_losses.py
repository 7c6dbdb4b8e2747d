import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.training import losses

ORACLES = {
    "l1": lambda d: np.mean(np.abs(d)),
    "l2": lambda d: np.mean(d**2),
    "charbonnier": lambda d: np.mean(np.sqrt(d**2 + 1e-6)),
    "decibels": lambda d: np.mean(
        10 * np.log10(np.mean(d**2, axis=(1, 2, 3)) + (0.5 / 255) ** 2)
    ),
}


def test_every_loss_has_an_oracle():
    assert set(losses.LOSSES) == set(ORACLES)


@pytest.mark.parametrize("name", ORACLES)
def test_loss_is_its_formula(name, rng):
    a, b = rng.uniform(size=(2, 2, 5, 7, 3)).astype(np.float32)
    expected = ORACLES[name](a.astype(np.float64) - b)
    np.testing.assert_allclose(losses.LOSSES[name](a, b), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ORACLES)
def test_gradient_is_finite_where_nothing_differs(name):
    x = jnp.full((1, 4, 4, 3), 0.5)
    assert jnp.isfinite(jax.grad(losses.LOSSES[name])(x, x)).all()


def test_decibels_weigh_relative_errors_alike(rng):
    """An error of a tenth changes the loss as much in a weak as in a strong image."""
    error = rng.normal(size=(1, 8, 8, 3)).astype(np.float32)
    clean = np.zeros_like(error)

    def gain(loss, level):
        return loss(level * error, clean) - loss(0.9 * level * error, clean)

    for name, ratio in (("decibels", 1), ("l1", 10)):
        loss = losses.LOSSES[name]
        found = gain(loss, 0.5) / gain(loss, 0.05)
        np.testing.assert_allclose(found, ratio, rtol=0.01)


@pytest.mark.parametrize("name", ORACLES)
def test_shapes_that_would_broadcast_are_refused(name):
    with pytest.raises(ValueError, match="shapes differ"):
        losses.LOSSES[name](jnp.zeros((2, 4, 4, 3)), jnp.zeros((2, 4, 4, 1)))
