"""Networks that break the law see images as in training; wrapped ones, whole images."""

import jax
import numpy as np
import pytest

from sevnet_jax import create_model
from sevnet_jax.equivariance import perturb
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_weights, save_weights

LN_GELU = {
    "name": "sevnet_s",
    "width": 8,
    "blocks": [1],
    "bottleneck": 0,
    "normalization": "layer_norm",
    "gate": "gelu",
}


@pytest.fixture(params=[False, True], ids=["bare", "wrapped"])
def weights(request, tmp_path, draw_params):
    config = {**LN_GELU, "wrapped": request.param}
    params = draw_params(create_model(**config), np.zeros((1, 8, 8, 3), np.float32))
    save_weights(tmp_path / "w.safetensors", params, config, {})
    return load_weights(tmp_path / "w.safetensors")


def restore(weights, image):
    return np.asarray(jax.jit(weights.model.apply)(weights.params, image[None])[0])


@pytest.mark.parametrize("brightest", [0.2, 1.0, 1.7])
def test_floats_are_seen_as_they_are(weights, rng, brightest):
    image = rng.uniform(0, brightest, (24, 40, 3)).astype(np.float32)
    expected = restore(weights, image)
    np.testing.assert_allclose(Denoiser(weights)(image), expected, atol=1e-5)
    # The control: at half of that it is another image to a network without the law.
    at_half = 2 * restore(weights, image / 2)
    same = np.allclose(at_half, expected, atol=1e-3)
    assert same == hasattr(weights.model, "inner")


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_white_is_1_in_integers(weights, rng, dtype):
    white = np.iinfo(dtype).max
    image = rng.integers(0, white // 2, (24, 40, 3), dtype)
    floats = (image / white).astype(np.float32)
    expected = np.clip(np.rint(restore(weights, floats) * white), 0, white)
    difference = np.abs(Denoiser(weights)(image, clipped=False) - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.05  # ties


def test_tiles_see_the_statistics_of_the_whole(weights, rng):
    image = rng.uniform(size=(200, 120, 3)).astype(np.float32)
    image[:100] *= 0.1  # a tile alone has another mean and deviation
    tiled = Denoiser(weights, tile_pixels=100 * 100)(image)
    np.testing.assert_allclose(tiled, restore(weights, image), atol=1e-5)


def test_floats_of_another_unit_are_refused_where_it_matters(weights, rng):
    image = rng.uniform(0, 255, (24, 40, 3)).astype(np.float32)
    if weights.model.keeps_the_law:
        Denoiser(weights)(image)
    else:
        with pytest.raises(ValueError, match="floats must have white at 1"):
            Denoiser(weights)(image)


def test_a_flat_image_in_a_wrapper_stays_as_it_is(tmp_path):
    """Also with biases, by which the network would change it."""
    config = {"name": "nafnet_xs", "width": 4, "encoder": (1,), "middle": 1}
    config |= {"decoder": (1,), "wrapped": True}
    model = create_model(**config)
    fresh = jax.jit(model.init)(jax.random.key(0), np.zeros((1, 8, 8, 3), np.float32))
    params = perturb(fresh)
    save_weights(tmp_path / "w.safetensors", params, config, {})
    denoise = Denoiser(load_weights(tmp_path / "w.safetensors"))
    for value in (0, 255):
        image = np.full((16, 16, 3), value, np.uint8)
        np.testing.assert_array_equal(denoise(image), image)


def test_a_wrapped_network_that_centres_sees_tiles_as_it_sees_images(
    tmp_path, draw_params, rng
):
    config = {**LN_GELU, "wrapped": (0.45, 0.25), "centre": "image"}
    model = create_model(**config)
    params = draw_params(model, np.zeros((1, 8, 8, 3), np.float32))
    save_weights(tmp_path / "w.safetensors", params, config, {})
    loaded = load_weights(tmp_path / "w.safetensors")
    image = rng.uniform(size=(24, 40, 3)).astype(np.float32)
    found = Denoiser(loaded)(image)
    np.testing.assert_allclose(found, restore(loaded, image), atol=1e-5)
