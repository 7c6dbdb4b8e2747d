"""Strips that follow one another give what the whole image gives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from sevnet_jax.models import (
    Network,
    Translated,
    create_model,
    layers,
    list_models,
    strips,
)


@functools.partial(jax.jit, static_argnums=(0, 6))
def restore(model, params, strip, waiting, top, height, arrivals):
    arrivals = dict(arrivals)
    return strips.restore_strip(model, params, strip, waiting, top, height, arrivals)


def find_side(model):
    """Returns the least height of strips."""
    return -(-(model.reach + 1) // model.multiple) * model.multiple


def run(model, params, image, side, forget=False):
    """Returns the restored image; with `forget`, each strip is without those above."""
    height = image.shape[1]
    shape = (1, side, *image.shape[2:])
    strip = jax.ShapeDtypeStruct(shape, "float32")
    waiting, arrivals = strips.plan(model, params, strip)
    waiting = {
        path: jnp.zeros(rows.shape, rows.dtype) for path, rows in waiting.items()
    }
    static, lag, parts = tuple(arrivals.items()), side - arrivals[strips.OUTPUT], []
    zeros = waiting
    for top in range(0, height + lag, side):
        strip = image[:, top : top + side]
        missing = side - strip.shape[1]
        strip = jnp.pad(strip, ((0, 0), (0, missing), (0, 0), (0, 0)))
        if forget:
            waiting = zeros
        rows, waiting = restore(model, params, strip, waiting, top, height, static)
        parts.append(rows)
    assert 0 < lag <= model.reach
    return jnp.concatenate(parts, 1)[:, lag : lag + height]


def check(model, height, side, draw_params, rng, atol=1e-5):
    width = max(model.multiple, 12 // model.multiple * model.multiple)
    image = jnp.asarray(rng.normal(size=(1, height, width, 3)), "float32")
    params = draw_params(model, image)
    restored = run(model, params, image, side)
    whole = jax.jit(functools.partial(model.apply, method="restore_tile"))
    np.testing.assert_allclose(restored, whole(params, image), atol=atol)


NETWORKS = [
    pytest.param("sevnet_xs", {}, id="sevnet_xs"),
    pytest.param("unet_relu_xs", {}, id="baseline"),
    pytest.param("sevnet_xs", {"gate": "igm_single"}, id="single scaling"),
    pytest.param("sevnet_xs", {"pre_normalization": "layer_norm"}, id="before"),
    pytest.param("sevnet_xs", {"wrapped": True}, id="wrapped"),
    pytest.param("sevnet_lw", {"blocks": (1, 0, 1)}, id="three scales"),
]


@pytest.mark.parametrize(("name", "fields"), NETWORKS)
def test_strips_are_the_whole(name, fields, draw_params, rng):
    model = create_model(name, width=4, **fields)
    assert model.streams
    side = find_side(model)
    check(model, 2 * side + model.multiple, side, draw_params, rng)


def test_winograds_products_stream(draw_params, rng):
    model = create_model("sevnet_xs", width=48, blocks=(1,), bottleneck=0, stem=1)
    check(model, 64, 32, draw_params, rng)


@pytest.mark.parametrize("height", [8, 120, 128])
def test_images_of_one_strip_or_less(height, draw_params, rng):
    model = create_model("sevnet_xs", width=4)
    check(model, height, find_side(model), draw_params, rng)


def test_bfloat16_streams(draw_params, rng):
    model = create_model("sevnet_xs", width=4, blocks=(1,), dtype="bfloat16")
    check(model, 80, find_side(model), draw_params, rng, atol=0.05)


@pytest.fixture
def drawn(draw_params, rng):
    """A network, its parameters and an image."""
    model = create_model("sevnet_xs", width=4)
    image = jnp.asarray(rng.normal(size=(1, 192, 8, 3)), "float32")
    return model, draw_params(model, image), image


def test_powers_of_two_stay_exact(drawn):
    model, params, image = drawn
    scaled = run(model, params, image * 2.0**-12, 128)
    np.testing.assert_array_equal(scaled, run(model, params, image, 128) * 2.0**-12)


def test_without_the_rows_above_they_are_not(drawn):
    """The control: what waits matters."""
    right, wrong = (run(*drawn, 128, forget=forget) for forget in (False, True))
    assert np.abs(right - wrong)[:, 128:].max() > 1e-2


class Blur(nn.Module):
    """Sees other tokens, but not through `layers.Conv`."""

    reach = 1

    @nn.compact
    def __call__(self, x):
        return x + jnp.roll(x, 1, 1)


def test_who_sees_rows_in_another_way_does_not_stream(monkeypatch):
    monkeypatch.setitem(layers.NORMALIZATIONS, "blur", Blur)
    assert not create_model("sevnet_xs", normalization="blur").streams
    assert not create_model("sevnet_xs", remat=True).streams
    assert not Translated.of(*2 * [create_model("sevnet_xs")]).streams
    assert not any(create_model(name).streams for name in list_models("rival"))


class Twice(Network):
    """Says that it streams, but calls a convolution twice."""

    streams, reach = True, 1

    @nn.compact
    def __call__(self, x):
        conv = layers.Conv(3, name="conv")
        return conv(conv(x))


class Far(Twice):
    @nn.compact
    def __call__(self, x):
        return layers.Conv(3)(layers.Conv(3)(x))


class Larger(Twice):
    @nn.compact
    def __call__(self, x):
        return layers.Conv(3, 4, 2, True)(layers.Conv(3, 2, 2)(x))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Twice(), "conv cannot stream: .* each one be called once"),
        (Larger(), "Conv_0 cannot stream: a transposed convolution must be as wide"),
        (Far(), "must declare its reach: it is 2 rows behind, and declares 1"),
    ],
)
def test_who_wrongly_says_so_is_refused(model, message):
    strip = jax.ShapeDtypeStruct((1, 16, 8, 3), "float32")
    params = jax.eval_shape(model.init, jax.random.key(0), strip)
    with pytest.raises(ValueError, match=message):
        strips.plan(model, params, strip)
