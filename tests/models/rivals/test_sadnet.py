"""SADNet's sampling at any place, against a loop over pixels."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from sevnet_jax.models.rivals import sadnet


def test_sampling_is_linear_between_pixels_and_zero_outside(rng):
    x = rng.normal(size=(2, 4, 5, 2, 3)).astype("f4")
    moves = rng.uniform(-7, 7, size=(2, 4, 5, 2, 2)).astype("f4")
    moves[0, :2] = np.round(moves[0, :2])
    moves[1, 0, 0] = [[1e30, -1e30], [-1e30, 0]]
    expected = np.zeros_like(x)
    for b, h, w, g in np.ndindex(*x.shape[:4]):
        place = np.array([h, w]) + moves[b, h, w, g].astype("f8")
        for row, column in itertools.product(range(4), range(5)):
            near = np.maximum(0, 1 - np.abs(place - [row, column])).prod()
            expected[b, h, w, g] += near * x[b, row, column, g]
    sampled = sadnet.sample(sadnet.gather_corners(jnp.asarray(x)), jnp.asarray(moves))
    np.testing.assert_allclose(sampled, expected, atol=1e-5)


def test_doubling_is_bilinear(rng):
    x = jnp.asarray(rng.normal(size=(1, 3, 4, 2)), "float32")
    expected = jax.image.resize(x, (1, 6, 8, 2), "bilinear")
    np.testing.assert_allclose(sadnet.double(x), expected, atol=1e-6)
