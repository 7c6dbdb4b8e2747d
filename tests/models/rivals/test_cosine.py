"""GRL's positions and labels, against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models.rivals import attention, cosine


@pytest.mark.parametrize(
    "sides", [((8, 8), (8, 8)), ((4, 8), (8, 16)), ((6, 4), (3, 2))]
)
def test_places_are_indexed_as_in_swin(sides):
    expected = attention.relative_index(*sides)
    np.testing.assert_array_equal(cosine.index_positions(*sides), expected)


def test_positions_of_windows_are_symmetric():
    grid = cosine.make_positions((8, 4), 1).reshape(15, 7, 2)
    np.testing.assert_array_equal(grid, -grid[::-1, ::-1])
    np.testing.assert_allclose(grid[-1, -1], np.log2(9) / 3, rtol=1e-6)
    np.testing.assert_allclose(grid[8, 3], (np.log2(8 / 7 + 1) / 3, 0), rtol=1e-6)


def test_positions_of_anchors_are_divided_by_the_positive_end():
    # 8 places and 4 anchors: from -5 to 5; 16 and 8: from -11 to 11, 5 and 2: -2 to 3.
    grid = cosine.make_positions((8, 16), 2).reshape(11, 23, 2)
    np.testing.assert_allclose(grid[:, 0, 0][[0, -1]], [-1.0566417, 1.0566417])
    np.testing.assert_allclose(grid[0, :, 1][11 + 1], np.log2(8 / 11 + 1) / 3)
    uneven = cosine.make_positions((5, 5), 2).reshape(6, 6, 2)
    np.testing.assert_allclose(uneven[0, 0], -np.log2(16 / 3 + 1) / 3, rtol=1e-6)


def test_windows_without_a_shift_need_no_mask(monkeypatch):
    x = jnp.ones((1, 16, 16, 4))
    layer = cosine.CosineAttention(2, (8, 8), (8, 8))
    called = []

    def mask_between(*labels):
        called.append(labels)
        return attention.mask_between(*labels)

    monkeypatch.setattr(cosine, "mask_between", mask_between)
    for shift, expected in ((0, 0), (4, 1)):
        cut, labels = cosine.cut_labelled(x, (8, 8), (shift, shift))
        parts = (cut, cut, cut)
        jax.eval_shape(
            lambda key, parts, labels=labels: layer.init(key, *parts, labels, labels),
            jax.random.key(0),
            parts,
        )
        assert len(called) == expected


def test_short_vectors_have_a_slope():
    slope = jax.grad(lambda x: cosine.normalize(x).sum())(jnp.zeros((1, 4)))
    assert jnp.isfinite(slope).all()
    np.testing.assert_allclose(cosine.normalize(jnp.full((1, 4), 2.0)), 0.5, rtol=1e-6)
