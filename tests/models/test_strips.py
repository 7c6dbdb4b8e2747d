"""Strips that follow one another give what the whole image gives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from sevnet_jax.models import Translated, create_model, layers, list_models, strips

WIDTH = 12  # of images


@functools.partial(jax.jit, static_argnums=(0, 4))
def restore(model, params, strip, kept, last):
    return strips.restore_strip(model, params, strip, kept, last)


def run(model, params, image, heights):
    """Returns what each strip completes."""
    kept, parts, ends = {}, [], np.cumsum(heights)
    assert ends[-1] == image.shape[1]
    for start, end in zip(ends - heights, ends, strict=True):
        last = end == ends[-1]
        rows, kept = restore(model, params, image[:, start:end], kept, last)
        parts.append(rows)
    assert not kept
    return parts


def check(model, heights, draw_params, rng, atol=1e-5):
    image = jnp.asarray(rng.normal(size=(1, sum(heights), WIDTH, 3)), "float32")
    image = image[:, :, : max(model.multiple, WIDTH // model.multiple * model.multiple)]
    params = draw_params(model, image)
    parts = run(model, params, image, heights)
    whole = jax.jit(functools.partial(model.apply, method="restore_tile"))
    expected = whole(params, image)
    np.testing.assert_allclose(jnp.concatenate(parts, 1), expected, atol=atol)
    return parts


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
    step = model.multiple
    first = -(-(model.reach + 1) // step) * step
    parts = check(model, [first, 4 * step, 4 * step, step], draw_params, rng)
    # The first strip holds back what the network sees below a row, the last one brings
    # it; all others have as many rows as they bring.
    heights = [part.shape[1] for part in parts]
    assert first - model.reach <= heights[0] < first
    assert heights[1:3] == [4 * step, 4 * step]
    assert heights[3] > step


def test_a_translator_streams_before_its_denoiser(draw_params, rng):
    nets = [create_model("sevnet_xs", width=4, blocks=(1,)) for _ in range(2)]
    model = Translated.of(*nets)
    assert model.streams
    check(model, [-(-(model.reach + 1) // 4) * 4, 8, 4], draw_params, rng)


def test_one_strip_is_the_whole(draw_params, rng):
    check(create_model("sevnet_xs", width=4), [16], draw_params, rng)


def test_bfloat16_streams(draw_params, rng):
    model = create_model("sevnet_xs", width=4, blocks=(1,), dtype="bfloat16")
    check(model, [64, 8], draw_params, rng, atol=0.05)


def test_powers_of_two_stay_exact(draw_params, rng):
    model = create_model("sevnet_xs", width=4)
    image = jnp.asarray(rng.normal(size=(1, 192, 8, 3)), "float32")
    params = draw_params(model, image)
    plain = run(model, params, image, [128, 64])
    scaled = run(model, params, image * 2.0**-12, [128, 64])
    for part, small in zip(plain, scaled, strict=True):
        np.testing.assert_array_equal(small, part * 2.0**-12)


def test_without_what_is_kept_they_are_not(draw_params, rng):
    """The control: rows above matter."""
    model = create_model("sevnet_xs", width=4)
    image = jnp.asarray(rng.normal(size=(1, 192, 8, 3)), "float32")
    params = draw_params(model, image)
    _, below = run(model, params, image, [128, 64])
    _, kept = restore(model, params, image[:, :128], {}, False)
    empty = {path: jnp.zeros_like(rows) for path, rows in kept.items()}
    rows, _ = restore(model, params, image[:, 128:], empty, True)
    assert np.abs(rows - below).max() > 1e-2


class Blur(nn.Module):
    """Sees other tokens, but not through `layers.Conv`."""

    reach = 1

    @nn.compact
    def __call__(self, x):
        return x + jnp.roll(x, 1, 1)


def test_who_sees_rows_in_another_way_does_not_stream(monkeypatch):
    monkeypatch.setitem(layers.NORMALIZATIONS, "blur", Blur)
    assert not create_model("sevnet_xs", normalization="blur").streams
    assert not any(create_model(name).streams for name in list_models("rival"))
