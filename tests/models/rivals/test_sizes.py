"""Rules of the originals about sizes, where the goldens have but one example."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import create_model
from sevnet_jax.models.rivals import attention, official

UFORMER = {"width": 4, "blocks": (1, 0, 0), "heads": (1, 1, 1), "window": 2}
GRL = {"width": 4, "blocks": (1,), "window_heads": (1,), "stripe_heads": (1,)}


@pytest.fixture
def check(draw_params):
    """A function: the image must give what the inside of its padded version does."""

    def check(network, image, padded, inside):
        params = draw_params(network, image)
        restore = jax.jit(network.apply)
        whole = restore(params, jnp.asarray(padded))
        np.testing.assert_allclose(restore(params, image), whole[inside], atol=1e-5)

    return check


@pytest.fixture
def image(rng):
    return jnp.asarray(rng.uniform(size=(1, 3, 6, 3)), "float32")


def test_uformer_puts_images_into_the_middle_of_a_square(image, check):
    network = create_model("uformer", **UFORMER)
    assert network.multiple == 4
    square = np.zeros((1, 8, 8, 3), "float32")
    square[:, 2:5, 1:7] = image
    check(network, image, square, np.s_[:, 2:5, 1:7])


def test_uformer_can_reflect_instead(image, check):
    network = create_model("uformer", **UFORMER, reflect=True)
    padded = np.pad(image, ((0, 0), (0, 1), (0, 2), (0, 0)), mode="reflect")
    check(network, image, padded, np.s_[:, :3, :6])


@pytest.mark.parametrize(("patch", "shifts"), [(256, 5), (8, 4), (4, 2)])
def test_uformer_never_shifts_where_a_patch_was_one_window(patch, shifts, monkeypatch):
    moved = []

    def shift_labels(size, window, shift):
        moved.append(shift)
        return labels(size, window, shift)

    labels = attention.shift_labels
    monkeypatch.setattr(attention, "shift_labels", shift_labels)
    config = {
        "embed_dim": 4,
        "depths": [2] * 5,
        "num_heads": [1] * 5,
        "win_size": 2,
        "img_size": patch,
    }
    network = official.build("uformer", config)
    images = jax.ShapeDtypeStruct((1, 16, 16, 3), jnp.float32)
    jax.eval_shape(network.init, jax.random.key(0), images)
    assert moved == [(1, 1)] * shifts


@pytest.mark.parametrize(("height", "mode"), [(4, "constant"), (5, "reflect")])
def test_grl_pads_short_sides_with_zeros(height, mode, rng, check):
    image = jnp.asarray(rng.uniform(size=(1, height, 7, 3)), "float32")
    network = create_model("grl", **GRL)
    margins = ((0, 0), (0, 8 - height), (0, 1), (0, 0))
    padded = np.pad(image, margins, mode=mode)
    check(network, image, padded, np.s_[:, :height, :7])
