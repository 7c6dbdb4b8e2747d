"""CGNet's way of resizing, and what it does to images that are too small for it."""

import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import create_model
from sevnet_jax.models.base import find_shapes
from sevnet_jax.models.rivals import cgnet, official


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


def test_the_kinds_of_cascades_tell_the_two_official_networks_apart():
    of_both = {"middle_blk_num": 10, "img_channel": 3}
    gaussian = {
        "width": 70,
        "enc_blk_nums": [4, 4, 6, 8],
        "dec_blk_nums": [2, 2, 2, 4],
        "GCE_CONVS_nums": [4, 4, 3, 3],
    }
    sidd = {
        "width": 60,
        "enc_blk_nums": [2, 2, 4, 6],
        "dec_blk_nums": [2, 2, 2, 2],
        "GCE_CONVS_nums": [3, 3, 2, 2],
    }
    for name in ("cgnet", "cgnet_sidd"):
        built = official.build(name, gaussian | of_both)
        assert built == create_model("cgnet")
        built = official.build(name, sidd | of_both)
        assert built == create_model("cgnet_sidd")
    assert built.cascades == (3, 3, 2, 2)


@pytest.mark.parametrize("kinds", [[3, 3, 3, 3], [4, 4, 2, 2], [5, 4, 3, 3], []])
def test_kinds_of_no_official_network_are_refused(kinds):
    with pytest.raises(ValueError, match=r"GCE_CONVS_nums has .*; got \("):
        official.build("cgnet", {"GCE_CONVS_nums": kinds})


def test_other_cascades_are_refused():
    network = create_model("cgnet_xs", cascades=(4, 4, 3, 3))
    with pytest.raises(ValueError, match=r"2 or 3 .* got cascades=\(4, 4, 3, 3\)"):
        find_shapes(network)
