"""The layers that the rivals share, against NumPy written another way."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from sevnet_jax.models.cpu import channels, depthwise
from sevnet_jax.models.rivals import common


def draw(rng, *shape):
    return jnp.asarray(rng.normal(size=shape), "float32")


def test_pixel_shuffle_has_the_channel_as_its_slow_index():
    x = np.arange(2 * 3 * 4 * 12).reshape(2, 3, 4, 12)
    y = np.zeros((2, 6, 8, 3), int)
    for c in range(3):
        for i in range(2):
            for j in range(2):
                y[:, i::2, j::2, c] = x[..., 4 * c + 2 * i + j]
    np.testing.assert_array_equal(common.pixel_shuffle(jnp.asarray(x)), y)
    np.testing.assert_array_equal(common.pixel_unshuffle(jnp.asarray(y)), x)


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({}, (3, 1, 1, 1)),
        ({"size": 1}, (1, 1, 0, 1)),
        ({"groups": 4}, (3, 1, 1, 1)),
        ({"groups": 2}, (3, 1, 1, 1)),
        ({"dilation": 2}, (3, 1, 2, 2)),
        ({"size": 2, "stride": 2, "padding": 0}, (2, 2, 0, 1)),
        ({"size": 4, "stride": 2, "padding": 1}, (4, 2, 1, 1)),
        ({"size": 3, "stride": 2, "padding": 0, "groups": 4}, (3, 2, 0, 1)),
        ({"size": 2, "stride": 2, "padding": 0, "bias": False}, (2, 2, 0, 1)),
    ],
)
@pytest.mark.parametrize("sides", [(6, 8), (7, 9)])
def test_convolution_is_pytorchs(rng, draw_params, fields, window, sides):
    size, stride, padding, dilation = window
    x = draw(rng, 2, *sides, 4)
    layer = common.Conv(4, **fields)
    variables = draw_params(layer, x)
    kernel = np.asarray(variables["params"]["kernel"])
    padded = np.pad(x, ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0)))
    rows, columns = (
        (side + 2 * padding - dilation * (size - 1) - 1) // stride + 1 for side in sides
    )
    groups = fields.get("groups", 1)
    expected = np.zeros((2, rows, columns, 4))
    for y in range(rows):
        for z in range(columns):
            for i in range(size):
                for j in range(size):
                    pixel = padded[
                        :, stride * y + dilation * i, stride * z + dilation * j
                    ]
                    for o in range(4):
                        first = o * groups // 4 * (4 // groups)
                        part = pixel[:, first : first + 4 // groups]
                        expected[:, y, z, o] += part @ kernel[i, j, :, o]
    expected += np.asarray(variables["params"].get("bias", np.zeros(4)))
    np.testing.assert_allclose(layer.apply(variables, x), expected, atol=2e-5)


def test_defaults_start_like_pytorchs(rng):
    x = jnp.zeros((1, 2, 2, 16))
    layer = common.Conv(64, groups=2)
    params = layer.init(jax.random.key(0), x)["params"]
    bound = 1 / math.sqrt(9 * 8)
    for leaf in params.values():
        assert 0.9 * bound < jnp.abs(leaf).max() <= bound
    dense = common.SwinDense(64).init(jax.random.key(0), x)["params"]
    assert 0.015 < dense["kernel"].std() < 0.025
    assert not dense["bias"].any()


@pytest.mark.parametrize("size", [3, 5])
def test_depthwise_programs_agree(rng, size):
    x, kernel, weights = (
        draw(rng, *s) for s in ((2, 5, 4, 3), (size, size, 1, 3), (2, 5, 4, 3))
    )

    def differentiate(program):
        return jax.value_and_grad(
            lambda x, kernel: jnp.vdot(weights, program(x, kernel)), (0, 1)
        )(x, kernel)

    ours, theirs = map(differentiate, (depthwise.convolve, depthwise._by_xla))
    for first, second in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (4, 3), (3,)])
def test_spread_programs_agree(rng, shape):
    vector, weights = draw(rng, 3), draw(rng, *shape)
    value, pull = jax.vjp(lambda v: channels.spread(v, shape), vector)
    np.testing.assert_array_equal(value, np.broadcast_to(vector, shape))
    np.testing.assert_allclose(pull(weights)[0], channels._sum(weights), rtol=1e-5)


@pytest.mark.parametrize("centred", [True, False])
def test_gradient_of_normalised_tokens_is_jaxs(rng, centred):
    x, weights = draw(rng, 2, 3, 6) + 2, draw(rng, 2, 3, 6)

    def plain(x):
        mean = x.mean(-1, keepdims=True)
        deviation = jnp.sqrt(jnp.var(x, -1, keepdims=True) + 0.1)
        return (x - mean if centred else x) / deviation

    def differentiate(function):
        return jax.grad(lambda x: jnp.vdot(weights, function(x)))(x)

    ours = differentiate(lambda x: common.normalize(x, 0.1, centred))
    np.testing.assert_allclose(ours, differentiate(plain), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gelu_is_flaxs(dtype):
    x = jnp.linspace(-9, 9, 181).astype(dtype)
    ours, theirs = (
        jax.value_and_grad(lambda x, gelu=gelu: gelu(x).sum())(x)[1]
        for gelu in (common.gelu, lambda x: nn.gelu(x, approximate=False))
    )
    tolerance = {"float32": 1e-6, "bfloat16": 2e-2}[dtype]
    for a, b in ((common.gelu(x), nn.gelu(x, approximate=False)), (ours, theirs)):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(
            *(z.astype("float32") for z in (a, b)), atol=tolerance
        )


def test_upsample_writes_each_pixel_into_four(rng, draw_params):
    x = draw(rng, 1, 2, 3, 4)
    layer = common.Upsample(5)
    variables = draw_params(layer, x)
    weight, bias = (np.asarray(variables["params"][n]) for n in ("weight", "bias"))
    y = np.asarray(layer.apply(variables, x))
    for i in range(2):
        for j in range(2):
            expected = np.asarray(x) @ weight[:, :, i, j] + bias
            np.testing.assert_allclose(y[:, i::2, j::2], expected, atol=1e-5)


@pytest.mark.parametrize("centred", [True, False])
def test_layer_norm(rng, draw_params, centred):
    x = draw(rng, 2, 3, 6) + 2
    layer = common.LayerNorm(0.1, centred)
    params = draw_params(layer, x)
    wide = np.asarray(x, "float64")
    y = wide - wide.mean(-1, keepdims=True) if centred else wide
    scale, bias = (np.asarray(params["params"].get(n, 0)) for n in ("scale", "bias"))
    y = y / np.sqrt(wide.var(-1, keepdims=True) + 0.1) * scale + bias
    assert ("bias" in params["params"]) == centred
    np.testing.assert_allclose(layer.apply(params, x), y, atol=1e-5)


def test_padding_and_cropping(rng):
    x = draw(rng, 1, 3, 4, 2)
    padded = common.pad_zeros(x, 4)
    np.testing.assert_array_equal(padded[:, :3], x)
    assert padded.shape == (1, 4, 4, 2)
    assert not padded[:, 3].any()
    np.testing.assert_array_equal(common.crop(padded, like=x), x)
