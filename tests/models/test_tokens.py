"""Token statistics against NumPy; products and their gradients against JAX's own."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import tokens


def test_token_statistics_match_numpy(rng):
    x = rng.normal(2, 3, size=(2, 3, 4, 7)).astype("float32")
    mean, variance = tokens.moments(jnp.asarray(x))
    chex.assert_trees_all_close(mean, x.mean(-1, keepdims=True), rtol=1e-5)
    chex.assert_trees_all_close(variance, x.var(-1, keepdims=True), rtol=1e-4)
    energy = x.var(-1, keepdims=True) + 1e-6 * np.square(x).mean(-1, keepdims=True)
    chex.assert_trees_all_close(tokens.energy(jnp.asarray(x)), energy, rtol=1e-4)


def test_normalized_tokens_have_zero_mean_and_unit_variance(rng):
    x = jnp.asarray(rng.normal(5, 2, size=(4, 4, 16)).astype("float32"))
    normalized = np.asarray(tokens.normalize(x), np.float64)
    np.testing.assert_allclose(normalized.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(normalized.var(-1), 1, rtol=1e-4)


def test_zero_and_constant_tokens_normalize_to_zero_with_finite_gradients():
    for x in (jnp.zeros((1, 1, 1, 8)), jnp.full((1, 1, 1, 8), 0.25)):
        value, gradient = jax.value_and_grad(lambda x: tokens.normalize(x)[0, 0, 0, 0])(
            x
        )
        assert value == 0
        assert np.isfinite(np.asarray(gradient)).all()


def test_nearly_constant_tokens_have_a_bounded_gradient():
    """Without the relative epsilon the slope would be 1 / spread, here 1e7."""
    x = jnp.full((1, 1, 1, 8), 1.0).at[0, 0, 0, 0].add(1e-7)
    jacobian = jax.jacobian(tokens.normalize)(x)
    assert np.abs(np.asarray(jacobian)).max() <= 1 / np.sqrt(tokens.RELATIVE_EPSILON)


def test_zero_safe_rsqrt_keeps_nan():
    values = tokens.zero_safe_rsqrt(jnp.array([0.0, 4.0, jnp.nan]))
    chex.assert_trees_all_equal(values[:2], jnp.array([0.0, 0.5]))
    assert np.isnan(values[2])


def modulate_plainly(x, affine):
    gamma, beta = jnp.split(affine, 2, axis=-1)
    return gamma * tokens.normalize(x) + beta


def gate_plainly(value, signal):
    scale = tokens.zero_safe_rsqrt(tokens.energy(value) + tokens.energy(signal))
    return value * tokens.scale_by(signal, scale)


PRODUCTS = [
    (jax.jit(tokens.modulate), jax.jit(modulate_plainly), 2),
    (jax.jit(tokens.gate), jax.jit(gate_plainly), 1),
]


@pytest.fixture
def draw(rng):
    """A function (share of channels) -> features [2, 3, 5, share * 8]."""

    def normal(share=1):
        values = rng.normal(0.5, 2, size=(2, 3, 5, 8 * share))
        return jnp.asarray(values, jnp.float32)

    return normal


@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
def test_gradients_are_those_of_the_formula(draw, product, plainly, share):
    x, y, cotangent = draw(), draw(share), draw()
    value, pull = jax.vjp(product, x, y)
    expected, pull_plainly = jax.vjp(plainly, x, y)
    chex.assert_trees_all_close(value, expected, rtol=1e-6, atol=1e-6)
    chex.assert_trees_all_close(
        pull(cotangent), pull_plainly(cotangent), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
def test_gradients_of_nearly_constant_tokens_too(draw, product, plainly, share):
    """There the epsilon's part of the gradient is as large as the rest."""
    x = 1 + 1e-3 * draw()
    y = jnp.concatenate([1 + 1e-3 * draw()] * share, -1)
    slopes = [
        jax.jit(jax.grad(lambda x, y, f=f: jnp.sin(f(x, y)).sum(), (0, 1)))(x, y)
        for f in (product, plainly)
    ]
    for ours, theirs in zip(*slopes, strict=True):
        size = float(jnp.abs(theirs).max())
        chex.assert_trees_all_close(ours, theirs, atol=1e-4 * size)


@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
def test_second_derivatives_are_those_of_the_formula(draw, product, plainly, share):
    x, y = draw(), draw(share)

    def slope_norm(f):
        inner = jax.grad(lambda x, y: jnp.sin(f(x, y)).sum(), (0, 1))
        total = lambda x, y: sum(jnp.sum(s**2) for s in inner(x, y))  # noqa: E731
        return jax.jit(jax.grad(total, (0, 1)))

    chex.assert_trees_all_close(
        slope_norm(product)(x, y), slope_norm(plainly)(x, y), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
def test_zero_tokens_give_zero_and_finite_gradients(product, plainly, share):
    x, y = jnp.zeros((1, 1, 2, 8)), jnp.zeros((1, 1, 2, 8 * share))
    value, pull = jax.vjp(product, x, y)
    assert (value == 0).all()
    assert all(np.isfinite(slope).all() for slope in pull(jnp.ones_like(value)))


@pytest.mark.optimized
@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
@pytest.mark.parametrize("exponent", [-40, -7, 12, 40])
def test_gradients_scale_as_the_degree_says(draw, product, plainly, share, exponent):
    """Of a function of degree 1 in both together, slopes have degree 0: to the bit."""
    x, y, cotangent = draw(), draw(share), draw()
    scale = 2.0**exponent
    chex.assert_trees_all_equal(
        jax.vjp(product, scale * x, scale * y)[1](cotangent),
        jax.vjp(product, x, y)[1](cotangent),
    )


@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
def test_narrow_types_stay_narrow(draw, product, plainly, share):
    x, y = (a.astype(jnp.bfloat16) for a in (draw(), draw(share)))
    value, pull = jax.vjp(product, x, y)
    assert value.dtype == jnp.bfloat16
    assert {slope.dtype for slope in pull(value)} == {jnp.dtype(jnp.bfloat16)}


@pytest.mark.parametrize(("product", "plainly", "share"), PRODUCTS)
def test_vmap_is_the_batch(draw, product, plainly, share):
    x, y = draw(), draw(share)
    chex.assert_trees_all_close(jax.vmap(product)(x, y), product(x, y), rtol=1e-6)
