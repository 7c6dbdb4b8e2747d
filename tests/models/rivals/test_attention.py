"""Attention in windows and between channels, against NumPy written another way."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models.rivals import attention


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), "float32")


def test_relative_index_tells_every_difference_apart():
    index = attention.relative_index((2, 3), (4, 5))
    assert index.shape == (6, 20)
    for query, key in np.ndindex(index.shape):
        rows = query // 3 - key // 5 + 3
        columns = query % 3 - key % 5 + 4
        assert index[query, key] == rows * 7 + columns
    assert {*attention.relative_index((3, 3), (3, 3)).ravel()} == {*range(25)}


def test_labels_part_pixels_that_were_no_neighbours():
    size, window, shift = (8, 12), (4, 4), (2, 2)
    labels = attention.shift_labels(size, window, shift)
    place = np.arange(96).reshape(size)
    rolled = np.roll(place, (-2, -2), (0, 1))
    cut = np.asarray(
        attention.cut_windows(jnp.asarray(rolled)[None, :, :, None], window)
    )
    mask = np.asarray(attention.mask_between(labels, labels))[0, :, 0]
    assert {*mask.ravel()} == {0, -100}
    for pixels, barrier in zip(cut[0, :, :, 0], mask, strict=True):
        rows, columns = pixels // 12, pixels % 12
        near = (abs(rows[:, None] - rows) < 4) & (abs(columns[:, None] - columns) < 4)
        np.testing.assert_array_equal(barrier == 0, near)


def test_windows_are_cut_by_rows_and_joined_again(rng):
    x = draw(rng, 2, 4, 6, 5)
    cut = attention.cut_windows(x, (2, 3))
    np.testing.assert_array_equal(cut[:, 3, 4], x[:, 3, 4])  # last window, its middle
    np.testing.assert_array_equal(cut[:, 1, 0], x[:, 0, 3])
    np.testing.assert_array_equal(attention.join_windows(cut, (2, 3), (4, 6)), x)


@pytest.mark.parametrize("fused", [True, False])
def test_window_attention_of_a_pixel(rng, draw_params, fused):
    """One query by hand, in a shifted window with a masked border."""
    x = draw(rng, 1, 4, 4, 6)
    layer = attention.WindowAttention(heads=2, window=2, shift=1, fused=fused)
    variables = draw_params(layer, x)
    offset = draw(rng, 4, 6)
    y = np.asarray(layer.apply(variables, x, offset))[0, 0, 1]

    params = jax.tree.map(lambda p: np.asarray(p, "float64"), variables["params"])
    places = [(3, 1), (3, 2), (0, 1), (0, 2)]  # of the window rolled over the border
    window = np.stack([np.asarray(x, "float64")[0][place] for place in places])
    window = window + np.asarray(offset, "float64")
    names = ["qkv"] if fused else ["qkv.to_q", "qkv.to_kv"]
    qkv = [window @ params[n]["kernel"] + params[n]["bias"] for n in names]
    query, key, value = np.split(np.concatenate(qkv, -1), 3, -1)
    heads = []
    for head in range(2):
        part = slice(3 * head, 3 * head + 3)
        logits = key[:, part] @ query[2, part] / math.sqrt(3)
        # The query is at row 1, column 0; the table has rows of 3 differences.
        rows = np.array([(1 - r + 1) * 3 + (0 - c + 1) for r in (0, 1) for c in (0, 1)])
        logits += params["relative_position_bias_table"][rows, head]
        logits[:2] -= 100
        weights = np.exp(logits - logits.max())
        heads.append(weights / weights.sum() @ value[:, part])
    expected = np.concatenate(heads) @ params["proj"]["kernel"] + params["proj"]["bias"]
    np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("keys", [7, 48])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_a_softmax_with_its_gradients(rng, keys, dtype):
    logits = 30 * draw(rng, 2, 3, 2, 5, keys)
    value, weights = draw(rng, 2, 3, keys, 2, 4).astype(dtype), draw(rng, 2, 3, 5, 2, 4)

    def plain(logits, value):
        weights = jax.nn.softmax(logits).astype(value.dtype)
        return jnp.einsum("bnhqk,bnkhd->bnqhd", weights, value)

    def differentiate(function):
        return jax.value_and_grad(
            lambda *args: jnp.vdot(weights, function(*args).astype("float32")), (0, 1)
        )(logits, value)

    tolerance = {"float32": 1e-5, "bfloat16": 5e-2}[dtype]
    ours, theirs = map(differentiate, (attention.weigh, plain))
    for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        assert a.dtype == b.dtype
        error = np.abs(np.asarray(a - b, "float64")).max()
        assert error <= tolerance * np.abs(np.asarray(b, "float64")).max()


def test_channel_attention_is_by_cosine_and_head(rng):
    qkv, temperature = draw(rng, 2, 3, 4, 18), jnp.array([0.5, 3.0])
    y = np.asarray(attention.attend_channels(qkv, temperature)).reshape(2, 12, 6)
    query, key, value = np.split(np.asarray(qkv, "f8").reshape(2, 12, 18), 3, -1)
    query = query / np.linalg.norm(query, axis=1, keepdims=True)
    key = key / np.linalg.norm(key, axis=1, keepdims=True)
    for image in range(2):
        for head, warmth in enumerate((0.5, 3.0)):
            part = slice(3 * head, 3 * head + 3)
            weights = np.exp(warmth * query[image, :, part].T @ key[image, :, part])
            weights /= weights.sum(1, keepdims=True)
            expected = value[image, :, part] @ weights.T
            np.testing.assert_allclose(y[image, :, part], expected, atol=1e-5)


def test_channel_attention_of_nothing_has_gradients():
    def loss(qkv):
        return attention.attend_channels(qkv, jnp.ones(2)).sum()

    assert jnp.isfinite(jax.grad(loss)(jnp.zeros((1, 1, 1, 12)))).all()
