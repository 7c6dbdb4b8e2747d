"""CGNet's way of resizing, and what it does to images that are too small for it."""

import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import create_model
from sevnet_jax.models.rivals import cgnet


@pytest.mark.parametrize(("small", "large", "moved"), [(7, 16, 0), (24, 592, 1)])
def test_resizing_rounds_as_the_original_does(small, large, moved):
    rows = jnp.arange(small).reshape(1, small, 1, 1)
    stretched = cgnet.stretch(rows, like=jnp.zeros((1, large, 2, 5)))
    assert stretched.shape == (1, large, 2, 1)
    exact = np.arange(large) * small // large
    wrong = exact - np.asarray(stretched)[0, :, 1, 0]
    assert {*wrong} <= {0, 1}
    assert (wrong.sum() > 0) == moved


def test_only_images_that_the_original_refuses_are_enlarged(rng):
    network = create_model("cgnet")
    image = jnp.asarray(rng.uniform(size=(1, 48, 49, 3)), "float32")
    enlarged = network._enlarge(image)
    assert enlarged.shape == (1, 64, 49, 3)
    np.testing.assert_array_equal(enlarged[:, :48], image)
    np.testing.assert_array_equal(enlarged[0, 60], image[0, 47])
