"""Each block computes its formula."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from sevnet_jax.models import layers, ops


def test_constant_scaling_formula(rng):
    x = rng.normal(size=(1, 2, 2, 9)).astype("float32")
    params = layers.ConstantScaling().init(jax.random.key(0), jnp.asarray(x))
    chex.assert_trees_all_close(
        layers.ConstantScaling().apply(params, jnp.asarray(x)), x / 3, rtol=1e-6
    )


def test_normalized_self_modulator_formula(draw_params, rng):
    x = rng.normal(size=(1, 2, 3, 4)).astype("float32")
    module = layers.NormalizedSelfModulator()
    params = draw_params(module, jnp.asarray(x))
    affine = x @ np.asarray(params["params"]["affine"]["kernel"])[0, 0]
    gamma, beta = affine[..., :4], affine[..., 4:]
    normalized = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    chex.assert_trees_all_close(
        jax.jit(module.apply)(params, x), gamma * normalized + beta, rtol=1e-3
    )


def test_heterogeneous_normalization_scales_one_half_and_modulates_the_other(
    draw_params, rng
):
    x = jnp.asarray(rng.normal(size=(1, 2, 3, 8)), "float32")
    module = layers.HeterogeneousNormalization()
    params = draw_params(module, x)["params"]
    first = layers.ConstantScaling().apply({"params": params["scaling"]}, x[..., :4])
    second = layers.NormalizedSelfModulator().apply(
        {"params": params["modulator"]}, x[..., 4:]
    )
    chex.assert_trees_all_equal(
        module.apply({"params": params}, x), jnp.concatenate([first, second], -1)
    )


@pytest.mark.parametrize("scaling", ["both", "gate", "none"])
def test_interactive_gating_formula(draw_params, rng, scaling):
    x = jnp.asarray(rng.normal(size=(1, 3, 3, 8)), "float32")
    module = layers.InteractiveGating(scaling)
    params = draw_params(module, x)
    kernel = params["params"]["value"]["kernel"]
    value, gate = np.asarray(ops.convolve(x[..., :4], kernel)), np.asarray(x[..., 4:])
    variance = {
        "both": value.var(-1, keepdims=True) + gate.var(-1, keepdims=True),
        "gate": gate.var(-1, keepdims=True),
        "none": 1.0,
    }[scaling]
    expected = value * gate / np.sqrt(variance)
    got = jax.jit(module.apply)(params, x)
    chex.assert_trees_all_close(got, expected, rtol=1e-4, atol=1e-6)


def test_sevb_is_a_residual_around_its_four_steps(draw_params, rng):
    x = jnp.asarray(rng.normal(size=(1, 4, 4, 6)), "float32")
    params = draw_params(layers.SEVB(), x)["params"]
    normalize, activate = (
        layers.HeterogeneousNormalization(),
        layers.InteractiveGating(),
    )

    @jax.jit
    def compute(x):
        y = ops.convolve(x, params["expand"]["kernel"])
        y = normalize.apply({"params": params["normalize"]}, y)
        y = activate.apply({"params": params["activate"]}, y)
        return x + ops.convolve(y, params["project"]["kernel"])

    got = jax.jit(layers.SEVB().apply)({"params": params}, x)
    chex.assert_trees_all_close(got, compute(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gate", ["igm", "relu", "elu", "none"])
def test_a_block_costs_the_same_with_any_gate(gate):
    """38 c^2 weights, so that the rows of the ablation table are of one size."""
    channels = 10
    block = layers.SEVB(gate=gate)
    shapes = jax.eval_shape(
        block.init, jax.random.key(0), jnp.zeros((1, 4, 4, channels))
    )
    kernels = [leaf for leaf in jax.tree.leaves(shapes) if len(leaf.shape) == 4]
    assert sum(np.prod(k.shape) for k in kernels) == 38 * channels**2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
        ("gelu", lambda x: x * scipy.stats.norm.cdf(x)),
        ("none", lambda x: x),
    ],
)
def test_pointwise_gates(rng, name, expected):
    x = rng.normal(size=(2, 3, 4, 6))
    got = layers.GATES[name]().apply({}, jnp.asarray(x, "float32"))
    np.testing.assert_allclose(got, expected(x), atol=2e-7, rtol=1e-5)


def test_normalizations_other_than_hnm(rng):
    x = rng.normal(1, 2, size=(2, 3, 4, 6)).astype("float32")
    modules = {name: make() for name, make in layers.NORMALIZATIONS.items()}
    init = {
        name: modules[name].init(jax.random.key(0), jnp.asarray(x))
        for name in ("cs", "cs_half", "layer_norm", "none")
    }
    got = {
        name: np.asarray(modules[name].apply(init[name], jnp.asarray(x)))
        for name in init
    }
    normalized = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    half = np.concatenate([x[..., :3] / np.sqrt(3), x[..., 3:]], -1)
    np.testing.assert_allclose(got["cs"], x / np.sqrt(6), rtol=1e-6)
    np.testing.assert_allclose(got["cs_half"], half, rtol=1e-6)
    np.testing.assert_allclose(got["layer_norm"], normalized, atol=1e-5)
    np.testing.assert_array_equal(got["none"], x)


def test_the_table_names_the_gates_by_their_scaling():
    assert layers.GATES["igm"]().scaling == "both"
    assert layers.GATES["igm_single"]().scaling == "gate"
    assert layers.GATES["igm_unscaled"]().scaling == "none"
