import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.training import losses

ORACLES = {
    "l1": lambda d: np.mean(np.abs(d)),
    "l2": lambda d: np.mean(d**2),
    "charbonnier": lambda d: np.mean(np.sqrt(d**2 + 1e-6)),
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


@pytest.mark.parametrize("name", ORACLES)
def test_shapes_that_would_broadcast_are_refused(name):
    with pytest.raises(ValueError, match="shapes differ"):
        losses.LOSSES[name](jnp.zeros((2, 4, 4, 3)), jnp.zeros((2, 4, 4, 1)))
