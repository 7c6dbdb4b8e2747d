"""Which windows Xformer shifts: by its official training, and by an image's size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import create_model
from sevnet_jax.models.rivals import official, xformer


def test_levels_that_were_one_window_in_training_do_not_shift():
    built = official.build("xformer", {"window_size": [16, 16, 16, 16]})
    assert built == create_model("xformer")
    assert built.shifted == (True, True, True, False)
    small = official.build("xformer", {"window_size": [8, 8, 8, 4]})
    assert small.shifted == (True, True, True, True)
    with pytest.raises(ValueError, match="img_size=128 only"):
        official.build("xformer", {"img_size": 64})


@pytest.mark.parametrize(("sides", "moves"), [((4, 9), False), ((5, 9), True)])
def test_a_map_one_window_high_is_not_shifted(rng, draw_params, sides, moves):
    x = jnp.asarray(rng.normal(size=(1, *sides, 4)), "float32")
    variables = draw_params(xformer.SpatialBlock(2, 4, True), x)
    y, plain = (
        jax.jit(xformer.SpatialBlock(2, 4, shifted).apply)(variables, x)
        for shifted in (True, False)
    )
    assert np.array_equal(y, plain) != moves
