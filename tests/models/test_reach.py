"""What a network sees of its image, and no more: tiles, bad pixels, `reach`."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax import create_model


def test_a_tile_with_the_whole_images_centre_matches_the_whole(draw_params, rng):
    model = create_model("sevnet_s", width=4, blocks=(1,), bottleneck=1)
    x = jnp.asarray(rng.uniform(size=(1, 64, 64, 3)), "float32")
    params = draw_params(model, x)
    run = jax.jit(model.apply)
    whole = run(params, x)
    tile = run(params, x[:, :40], centre=model.find_centre(x))
    chex.assert_trees_all_close(tile[:, :8], whole[:, :8], atol=1e-5)
    own = run(params, x[:, :40] + jnp.linspace(0, 9, 40)[None, :, None, None])
    assert np.abs(own[:, :8] - whole[:, :8]).max() > 1e-3


def test_a_nan_pixel_spoils_its_neighbourhood_only(draw_params, rng):
    model = create_model("sevnet_s", width=4, blocks=(1,), bottleneck=1)
    x = jnp.asarray(rng.uniform(size=(2, 96, 96, 3)), "float32")
    params = draw_params(model, x)
    run = jax.jit(model.apply)
    for bad in (jnp.nan, jnp.inf):
        output = np.asarray(run(params, x.at[0, 3, 3, 0].set(bad)))
        assert not np.isfinite(output[0, 3, 3]).any()
        assert np.isfinite(output[0, 60:, 60:]).all()
        assert np.isfinite(output[1]).all()


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        pytest.param("sevnet_s", {"width": 4}, marks=pytest.mark.slow),
        pytest.param("sevnet_s", {"width": 4, "gate": "relu"}, marks=pytest.mark.slow),
        ("sevnet_s", {"width": 4, "blocks": (1, 0, 1), "bottleneck": 1, "stem": 1}),
        ("sevnet_s", {"width": 4, "blocks": (1,), "bottleneck": 0, "stem": 3}),
    ],
)
def test_reach_is_how_far_a_nan_gets(preset, changes, draw_params):
    """A NaN turns every output that depends on it into NaN, and no other."""
    model = create_model(preset, **changes)
    side, block = 2 * model.reach + 3 * model.multiple, model.multiple
    x = np.ones((1, side, side, 3), np.float32)
    params = draw_params(model, x[:, :block, :block])
    start = model.reach + block
    x[0, start : start + block, start : start + block] = np.nan
    spoiled = np.isnan(jax.jit(model.apply)(params, x)).any((0, 2, 3))
    rows = np.flatnonzero(spoiled)
    reached = max(start - rows[0], rows[-1] - (start + block - 1))
    assert model.reach - model.multiple < reached <= model.reach


def test_reach_of_the_presets():
    assert create_model("sevnet_s").reach == 104
    assert create_model("sevnet").reach == 176
