"""A wrapper gives any network the laws of its image's mean and deviation."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from sevnet_jax import equivariance
from sevnet_jax.models import NormalizationWrapper, create_model

ROW_2F = {"normalization": "layer_norm", "gate": "gelu"}
TINY = {"width": 4, "blocks": (), "bottleneck": 1, **ROW_2F}


class Biased(nn.Module):
    """A network of nobody's: biases, tanh, no attribute that ours have."""

    @nn.compact
    def __call__(self, x):
        return nn.Conv(x.shape[-1], (3, 3))(jnp.tanh(nn.Conv(8, (3, 3))(x) + 0.3))


@pytest.fixture(scope="module", params=["biased", "ours"])
def bare(request):
    if request.param == "biased":
        return Biased()
    return create_model("sevnet_s", **TINY, centre="none")


@pytest.fixture(scope="module")
def wrapped(bare, draw_params):
    model = NormalizationWrapper(bare)
    return model, draw_params(model, jnp.zeros((1, 8, 8, 3)))


@pytest.fixture(scope="module")
def run(wrapped):
    """The wrapped network as one jitted function of the image."""
    model, variables = wrapped
    return jax.jit(lambda y: model.apply(variables, y))


@pytest.fixture
def x(rng):
    """Two images whose means and deviations differ."""
    images = rng.uniform(size=(2, 16, 12, 3)) * [[[[0.2]]], [[[0.9]]]] + 0.1
    return jnp.asarray(images, jnp.float32)


def test_it_is_its_formula(wrapped, run, x):
    model, variables = wrapped
    mean = np.mean(x, (1, 2, 3), keepdims=True)
    deviation = np.std(x, (1, 2, 3), keepdims=True)
    inner, inside = model.unwrap(variables)
    standard = (np.asarray(x) - mean) / deviation
    expected = np.asarray(jax.jit(inner.apply)(inside, standard)) * deviation + mean
    chex.assert_trees_all_close(run(x), expected, atol=1e-5)


@pytest.mark.optimized
@pytest.mark.parametrize("exponent", [-12, -3, 1, 9])
def test_it_commutes_with_powers_of_two(run, x, exponent):
    scale = 2.0**exponent
    chex.assert_trees_all_equal(run(scale * x), scale * run(x))


def test_it_is_homogeneous_and_moves_with_the_mean(run, x):
    law = equivariance.measure(run, x)
    assert law.holds()
    assert law.degree == pytest.approx(1, abs=1e-3)
    assert max(row.relative_error for row in law.shifts) < 1e-4


def test_the_network_alone_breaks_the_law(wrapped, x):
    model, variables = wrapped
    inner, inside = model.unwrap(variables)
    bare = jax.jit(lambda y: inner.apply(inside, y))
    assert not equivariance.measure(bare, x).holds()


def restore_halves(model, variables):
    """An image whose right half is 4 times as loud, restored whole and half by half."""
    x = jax.random.uniform(jax.random.key(0), (1, 16, 64, 3)) - 0.5
    x = x.at[:, :, 32:].multiply(4)
    ramp = jnp.where(jnp.arange(64) < 32, 1.0, 4.0)[None, None, :, None]
    far_left = np.s_[:, :, :8]
    run = jax.jit(lambda x: model.apply(variables, x))
    together, apart = run(x), run(x / ramp)
    return together[far_left], (apart * ramp)[far_left]


def test_the_law_is_of_the_whole_image_only(wrapped):
    """Half an image scaled is no scaled image: the wrapper cannot help there."""
    together, apart = restore_halves(*wrapped)
    assert not np.allclose(together, apart, rtol=1e-2, atol=1e-3)


def test_a_homogeneous_network_is_local(draw_params):
    """The control: far from the seam it does not see what the other half is like."""
    model = create_model("sevnet_s", width=4, blocks=(), bottleneck=1, centre="none")
    variables = draw_params(model, jnp.zeros((1, 8, 8, 3)))
    together, apart = restore_halves(model, variables)
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("design", "same"), [({}, True), (ROW_2F, False)])
def test_a_homogeneous_network_is_wrapped_already(draw_params, x, design, same):
    """Its law takes the deviation out again; the mean it subtracts itself."""
    size = {"width": 4, "blocks": (), "bottleneck": 1}
    ours = create_model("sevnet_s", **size, **design)
    wrapped = create_model("sevnet_s", **size, **design, wrapped=True)
    variables = draw_params(ours, x)
    inside = {name: {"inner": values} for name, values in variables.items()}
    expected, found = (
        jax.jit(ours.apply)(variables, x),
        jax.jit(wrapped.apply)(inside, x),
    )
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5) == same


def test_a_flat_image_stays_as_it_is(wrapped):
    model, variables = wrapped
    flat = jnp.full((1, 8, 8, 3), 0.25)

    @jax.jit
    def run(params):
        restored, pull = jax.vjp(lambda p: model.apply(p, flat), params)
        return restored, pull(jnp.ones_like(restored))

    restored, gradients = run(variables)
    chex.assert_trees_all_equal(restored, flat)
    chex.assert_tree_all_finite(gradients)


def test_presets_are_wrapped_by_name():
    model = create_model("sevnet_s", **TINY, wrapped=True)
    assert isinstance(model, NormalizationWrapper)
    assert model.inner == create_model("sevnet_s", **TINY, centre="none")
    assert (model.channels, model.multiple) == (3, 2)
    assert model.with_fields(precision="highest").inner.precision == "highest"


def test_a_trained_network_gets_the_units_that_it_is_used_to(draw_params, x):
    wrapped = create_model("sevnet_s", **TINY, wrapped=[0.4, 0.25])
    assert (wrapped.mean, wrapped.deviation) == (0.4, 0.25)
    variables = draw_params(wrapped, x)
    inner, inside = wrapped.unwrap(variables)
    mean = np.mean(x, (1, 2, 3), keepdims=True)
    scale = np.std(x, (1, 2, 3), keepdims=True) / 0.25
    seen = (np.asarray(x) - mean) / scale + 0.4
    expected = (np.asarray(jax.jit(inner.apply)(inside, seen)) - 0.4) * scale + mean
    run = jax.jit(lambda y: wrapped.apply(variables, y))
    chex.assert_trees_all_close(run(x), expected, atol=1e-5)
    chex.assert_trees_all_equal(run(8 * x), 8 * run(x))
    # What the denoiser runs on an image that it made standard itself.
    tile = jax.jit(lambda y: wrapped.apply(variables, y, method="restore_tile"))
    found = np.asarray(tile((x - mean) / (0.25 * scale))) * 0.25 * scale + mean
    chex.assert_trees_all_close(found, expected, atol=1e-5)


@pytest.mark.parametrize("units", [(0.4,), (0.4, 0), (0.4, "wide"), (np.nan, 1)])
def test_units_that_are_none_are_refused(units):
    with pytest.raises(ValueError, match="a mean and a positive deviation"):
        create_model("sevnet_s", **TINY, wrapped=units)
