"""Blocks: f(kx) = k f(x) to the last bit, and their corner cases."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from hypothesis import given, settings
from hypothesis import strategies as st

from sevnet_jax import equivariance
from sevnet_jax.models import layers, tokens

BLOCKS = {
    "Conv": functools.partial(layers.Conv, 6),
    "Conv, stride 2": functools.partial(layers.Conv, 6, 2, 2),
    "Conv, transposed": functools.partial(layers.Conv, 6, 2, 2, True),
    "ConstantScaling": layers.ConstantScaling,
    "NormalizedSelfModulator": layers.NormalizedSelfModulator,
    "HeterogeneousNormalization": layers.HeterogeneousNormalization,
    "InteractiveGating": layers.InteractiveGating,
    "InteractiveGating, single": functools.partial(layers.InteractiveGating, "gate"),
    "SEVB": layers.SEVB,
    "SEVB, ReLU": functools.partial(layers.SEVB, "none", "relu", 1),
}


@functools.cache
def compile_block(make):
    """A block as a jitted (params, x), the same for every example of a shape."""
    return jax.jit(make().apply)


every_block = pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS.keys())


def draw_features(rng, shape, dtype="float32"):
    """Features with zero, constant and one-channel tokens among them."""
    x = rng.normal(size=shape)
    x[:, 0, 0] = 0
    x[:, -1, 0] = 0.3
    x[:, 0, -1, 1:] = 0
    return jnp.asarray(x, dtype)


@pytest.mark.optimized
@every_block
@settings(max_examples=6)
@given(
    exponent=st.integers(-40, 40),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    seed=st.integers(0, 99),
)
def test_block_commutes_with_powers_of_two(draw_params, make, exponent, dtype, seed):
    """A power of two only moves exponents: equality is exact, no tolerance."""
    x = draw_features(np.random.default_rng(seed), (2, 4, 6, 8), dtype)
    fn = functools.partial(compile_block(make), draw_params(make(), x, seed))
    scale = jnp.asarray(2.0**exponent, dtype)
    chex.assert_trees_all_equal(fn(scale * x), scale * fn(x))


@every_block
@settings(max_examples=6)
@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 99))
def test_block_commutes_with_any_scale(draw_params, make, scale, seed):
    """Up to rounding, for tokens that differ from a constant by more than rounding."""
    x = jnp.asarray(np.random.default_rng(seed).normal(size=(1, 4, 6, 8)), "float32")
    fn = functools.partial(compile_block(make), draw_params(make(), x, seed))
    equivariance.assert_homogeneous(fn, x, scales=(scale,))


@pytest.mark.optimized
@every_block
def test_gradients_have_degree_zero_in_x_and_one_in_the_parameters(
    draw_params, rng, make
):
    """Of the sum c . f(x) for a fixed c: what a loss's gradient is made of."""
    x = jnp.asarray(rng.normal(size=(2, 4, 6, 8)), "float32")
    params = draw_params(make(), x)
    shape = jax.eval_shape(make().apply, params, x).shape
    weights = jnp.asarray(rng.normal(size=shape), "float32")
    grad = jax.jit(
        jax.grad(lambda p, x: jnp.vdot(weights, make().apply(p, x)), argnums=(0, 1))
    )
    scales = (2.0**-12, 2.0**-3, 2.0, 2.0**9, 3.0)
    equivariance.assert_homogeneous(lambda x: grad(params, x)[1], x, 0, scales)
    equivariance.assert_homogeneous(lambda x: grad(params, x)[0], x, 1, scales)


@every_block
def test_zero_tokens_give_zero(draw_params, make):
    x = jnp.zeros((1, 4, 4, 8))
    params = draw_params(make(), x)

    @jax.jit
    def run(x):
        output, pull = jax.vjp(lambda x: make().apply(params, x), x)
        return output, *pull(jnp.ones_like(output))

    output, gradient = run(x)
    chex.assert_trees_all_equal(output, jnp.zeros_like(output))
    chex.assert_tree_all_finite(gradient)


@every_block
def test_bfloat16_features_stay_bfloat16(draw_params, rng, make):
    x = draw_features(rng, (1, 4, 4, 8), "bfloat16")
    params = draw_params(make(), x)
    chex.assert_type(jax.tree.leaves(params), jnp.float32)
    chex.assert_type(jax.eval_shape(make().apply, params, x), jnp.bfloat16)


@pytest.mark.parametrize("conv", [layers.Conv(64), layers.Conv(64, 2, 2, True)])
def test_fresh_convolutions_keep_the_variance(rng, conv):
    x = jnp.asarray(rng.normal(size=(1, 32, 32, 48)), "float32")
    params = jax.jit(conv.init)(jax.random.key(0, impl="rbg"), x)
    output = jax.jit(conv.apply)(params, x)[:, 2:-2, 2:-2]
    assert np.var(output) == pytest.approx(1, rel=0.1)


def test_gating_survives_features_whose_product_underflows(draw_params, rng):
    """Scaling the gate first keeps the small ones: their bare product would be 0."""
    x = jnp.asarray(rng.normal(size=(1, 4, 4, 32)), "float32")
    x = x.at[..., 16:20].multiply(2.0**-24)  # four channels of the gate
    module = layers.InteractiveGating()
    fn = functools.partial(jax.jit(module.apply), draw_params(module, x))
    equivariance.assert_homogeneous(fn, x, scales=(2.0**-50,))


def test_bfloat16_statistics_are_taken_in_float32(rng):
    """A mean of 256 and a spread of 1: in bfloat16 the variance would be lost."""
    x = jnp.asarray(256 + rng.normal(size=(4, 64)) * 2, "bfloat16")
    exact = np.asarray(x, np.float64)
    expected = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True)
    got = np.asarray(tokens.normalize(x), np.float64)
    np.testing.assert_allclose(got, expected, atol=0.05)


class BiasedConv(nn.Module):
    @nn.compact
    def __call__(self, x):
        bias = self.param("bias", nn.initializers.ones, (8,))
        return layers.Conv(8)(x) + bias[None, None, None]


class AbsoluteEpsilon(nn.Module):
    @nn.compact
    def __call__(self, x):
        mean, variance = tokens.moments(x)
        return x * (x - mean) * jax.lax.rsqrt(variance + 1e-6)


@pytest.mark.parametrize("module", [BiasedConv(), AbsoluteEpsilon()])
def test_a_bias_and_an_absolute_epsilon_are_caught(draw_params, rng, module):
    x = jnp.asarray(rng.normal(size=(1, 4, 4, 8)), "float32")
    params = draw_params(module, x)
    fn = functools.partial(jax.jit(module.apply), params)
    with pytest.raises(AssertionError, match="fails at k"):
        equivariance.assert_homogeneous(fn, x)


@pytest.mark.parametrize(
    "module", [layers.HeterogeneousNormalization(), layers.InteractiveGating()]
)
def test_an_odd_channel_count_is_named(module):
    with pytest.raises(ValueError, match=r"two halves, got 7 channels.*even"):
        module.init(jax.random.key(0), jnp.zeros((1, 4, 4, 7)))


@pytest.mark.parametrize("x", [jnp.ones((1, 2, 2, 8), "int32"), jnp.float32(1), [1.0]])
def test_what_is_no_feature_map_is_named(x):
    with pytest.raises(ValueError, match="expected"):
        layers.ConstantScaling().init(jax.random.key(0), x)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (layers.SEVB(normalization="batch"), "unknown normalization 'batch'.*hnm"),
        (layers.SEVB(gate="swish"), "unknown gate 'swish'.*igm"),
        (layers.SEVB(pre_normalization="x"), "unknown pre_normalization 'x'"),
    ],
)
def test_an_unknown_part_is_named_with_the_choices(block, words):
    with pytest.raises(ValueError, match=words):
        block.init(jax.random.key(0), jnp.zeros((1, 4, 4, 8)))


def test_nan_stays_in_its_neighbourhood(draw_params, rng):
    x = jnp.asarray(rng.normal(size=(1, 15, 15, 8)), "float32")
    params = draw_params(layers.SEVB(), x)
    output = jax.jit(layers.SEVB().apply)(params, x.at[0, 7, 7, 0].set(jnp.nan))
    spoilt = np.isnan(np.asarray(output)).any(-1)[0]
    expected = np.zeros((15, 15), bool)
    expected[4:11, 4:11] = True  # three 3x3 convolutions see 3 pixels far
    np.testing.assert_array_equal(spoilt, expected)
