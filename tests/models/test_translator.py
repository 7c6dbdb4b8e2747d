"""A translator before a denoiser keeps what both keep, and can be cut into tiles."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax import equivariance
from sevnet_jax.models import Translated, create_model

TINY = {"width": 4, "blocks": (), "bottleneck": 1}


@pytest.fixture(scope="module")
def whole(draw_params):
    """A small translator and denoiser, and their random variables."""
    translator = create_model("translator_s", **TINY)
    denoiser = create_model("sevnet_s", **TINY)
    image = jnp.zeros((1, 8, 8, 3))
    variables = Translated.join(
        draw_params(translator, image, 1), draw_params(denoiser, image, 2)
    )
    return Translated(translator, denoiser), variables


@pytest.fixture(scope="module")
def run(whole):
    """The whole as one jitted function of the image."""
    model, variables = whole
    return jax.jit(lambda y: model.apply(variables, y))


@pytest.fixture
def x(rng):
    return jnp.asarray(rng.uniform(size=(2, 16, 12, 3)), jnp.float32)


@pytest.mark.optimized
@pytest.mark.parametrize("exponent", [-30, -12, -1, 9, 30])
def test_the_whole_commutes_with_powers_of_two(run, x, exponent):
    scale = 2.0**exponent
    chex.assert_trees_all_equal(run(scale * x), scale * run(x))


def test_the_whole_is_homogeneous_and_moves_with_its_mean(run, x):
    law = equivariance.measure(run, x)
    assert law.holds()
    assert law.degree == pytest.approx(1, abs=1e-3)
    assert max(row.relative_error for row in law.shifts) < 1e-5


@pytest.mark.parametrize(
    ("of_translator", "of_denoiser", "law"),
    [
        ({"centre": "constant"}, {}, True),
        ({}, {"centre": "constant"}, False),
        ({"normalization": "layer_norm"}, {}, False),
        ({}, {"normalization": "layer_norm"}, False),
    ],
)
def test_the_declared_law_is_the_measured_one(
    draw_params, x, of_translator, of_denoiser, law
):
    translator = create_model("translator_s", **TINY, **of_translator)
    denoiser = create_model("sevnet_s", **TINY, **of_denoiser)
    image = jnp.zeros((1, 8, 8, 3))
    variables = Translated.join(
        draw_params(translator, image, 1), draw_params(denoiser, image, 2)
    )
    model = Translated(translator, denoiser)
    run = jax.jit(lambda y: model.apply(variables, y))
    assert equivariance.measure(run, x).holds() == law == model.keeps_the_law


def test_it_is_the_denoiser_of_the_translated_image(whole, x):
    model, variables = whole
    centre = x.mean((1, 2, 3), keepdims=True)
    parts = variables["params"]
    apply = jax.jit(lambda net, *args: net.apply(*args), static_argnums=0)
    expected = apply(model.translator, {"params": parts["translator"]}, x, centre)
    restore = jax.jit(lambda x: model.apply(variables, x, method="restore"))
    translated, restored = restore(x)
    chex.assert_trees_all_close(translated, expected, rtol=1e-5, atol=1e-6)
    expected = apply(model.denoiser, {"params": parts["denoiser"]}, expected, centre)
    chex.assert_trees_all_close(restored, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (1, 7, 13, 3), (2, 31, 37, 3)])
def test_any_size_comes_back(whole, shape):
    model, variables = whole
    image = jax.ShapeDtypeStruct(shape, jnp.float32)
    translated, restored = jax.eval_shape(
        lambda x: model.apply(variables, x, method="restore"), image
    )
    assert translated.shape == restored.shape == shape


def test_nothing_beyond_its_reach_is_seen(whole):
    """A NaN spoils what can see it: exactly no more than `reach` says."""
    model, variables = whole
    side = 2 * model.reach + model.multiple
    image = np.zeros((1, side, side, 3), np.float32)
    image[0, 0, 0, 0] = np.nan
    restored = jax.jit(model.apply)(variables, image, jnp.zeros((1, 1, 1, 1)))
    spoiled = np.flatnonzero(np.isnan(np.asarray(restored)).any((0, 2, 3)))
    assert 0 < spoiled.max() < model.reach + model.multiple
