"""CRWKV's mean over all tokens against its formula, and what its shifts move where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import create_model
from sevnet_jax.models.rivals import crwkv


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), "float32")


@pytest.mark.parametrize("count", [1, 2, 23])
def test_the_mean_is_the_formulas(rng, count):
    key, value = 3 * draw(rng, 2, count, 5), draw(rng, 2, count, 5)
    decay, first = 4 * draw(rng, 5), draw(rng, 5)
    t = np.arange(count)
    steps = np.abs(t[:, None] - t)[..., None]  # [t, i, 1]
    w, u, k = (np.asarray(a, "float64") for a in (decay, first, key))
    bonus = np.where(steps == 0, u, w * (1 - steps)) / count
    weights = np.exp(k[:, None] + bonus)
    expected = (weights * np.asarray(value)[:, None]).sum(2) / weights.sum(2)
    y = crwkv.average_tokens(key, value, decay, first)
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_the_mean_of_many_tokens_has_its_digits(rng):
    """Constant values have themselves for a mean, whatever the weights."""
    key, value = 5 * draw(rng, 1, 65536, 4) + 300, jnp.full((1, 65536, 4), 0.7)
    decay = jnp.array([-60.0, -3, 5, 60])
    y = jax.jit(crwkv.average_tokens)(key, value, decay, jnp.ones(4))
    np.testing.assert_allclose(y, value, rtol=1e-5)
    narrow = [a.astype("bfloat16") for a in (key, value)]
    assert crwkv.average_tokens(*narrow, decay, jnp.ones(4)).dtype == "bfloat16"


@pytest.mark.parametrize("kind", ["released", "intended"])
@pytest.mark.parametrize("sides", [(5, 5), (3, 6), (6, 4), (1, 1)])
def test_groups_of_channels_move(rng, kind, sides):
    x = np.asarray(draw(rng, 1, *sides, 16))
    y = np.asarray(crwkv.shift_tokens(jnp.asarray(x), kind))
    rows = {"released": (0, 1), "intended": (1, 0)}[kind]
    back = {"released": (1, 1), "intended": (1, -1)}[kind]
    moves = [(0, 1)] * 2 + [(0, -1)] * 2  # an eighth each
    moves += [rows] * 2 + [(-rows[0], -rows[1])] * 2
    moves += [(0, 2), (0, -2), (2 * rows[0], 2 * rows[1]), (-2 * rows[0], -2 * rows[1])]
    moves += [(1, 1), (-1, -1), back, (-back[0], -back[1])]
    for channel, (down, right) in enumerate(moves):
        for row, column in np.ndindex(*sides):
            there = (row - down, column - right)
            inside = all(0 <= a < side for a, side in zip(there, sides, strict=True))
            expected = x[0, *there, channel] if inside else 0
            assert y[0, row, column, channel] == expected


@pytest.mark.parametrize("width", [2, 4, 6, 8, 12, 22])
def test_any_width_keeps_its_channels(width):
    x = jnp.ones((1, 5, 5, width))
    np.testing.assert_array_equal(
        crwkv.shift_tokens(x, "released")[:, 2, 2], x[:, 2, 2]
    )


def test_unknown_shifts_are_refused():
    network = create_model("crwkv_xs", shift="paper")
    with pytest.raises(ValueError, match="shift is one of released, intended, got"):
        jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 8, 8, 3)))


def test_blocks_start_as_their_depth_says():
    first, last = (
        jax.jit(crwkv.SpatialMix("released", block, 4).init)(
            jax.random.key(0), jnp.zeros((1, 4, 4, 16))
        )["params"]
        for block in (0, 3)
    )
    channel = np.arange(16)
    for params, power in ((first, 0.7), (last, 2.0)):
        decay = -5 + 8 * (channel / 15) ** power
        np.testing.assert_allclose(params["spatial_decay"], decay, rtol=1e-5)
    start = np.log(0.3) + 0.5 * ((channel + 1) % 3 - 1)
    np.testing.assert_allclose(last["spatial_first"], start, rtol=1e-5)
    share = channel / 16
    np.testing.assert_allclose(first["spatial_mix_k"], share, rtol=1e-5)
    np.testing.assert_allclose(last["spatial_mix_k"], share**0.25, rtol=1e-5)
    np.testing.assert_allclose(last["spatial_mix_v"], share**0.25 + 0.3, rtol=1e-5)
    np.testing.assert_allclose(last["spatial_mix_r"], share**0.125, rtol=1e-5)
