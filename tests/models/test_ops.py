"""Primitives: each against a plain NumPy oracle."""

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models import ops
from sevnet_jax.models.cpu.pixel_shuffle import depth_to_space, space_to_depth


def convolve_plainly(x, kernel, stride):
    """Zero-padded cross-correlation, one output pixel at a time."""
    size = kernel.shape[0]
    before = (size - stride) // 2 if size > stride else 0
    after = max(size - stride, 0) - before
    padded = np.pad(x, ((0, 0), (before, after), (before, after), (0, 0)))
    height, width = x.shape[1] // stride, x.shape[2] // stride
    out = np.zeros((x.shape[0], height, width, kernel.shape[3]))
    for i in range(height):
        for j in range(width):
            patch = padded[:, i * stride : i * stride + size, j * stride :][:, :, :size]
            out[:, i, j] = np.einsum("bhwi,hwio->bo", patch, kernel)
    return out


@pytest.mark.parametrize(("size", "stride"), [(3, 1), (1, 1), (2, 2)])
def test_convolve_matches_numpy(rng, size, stride):
    x = rng.normal(size=(2, 6, 4, 3)).astype("float32")
    kernel = rng.normal(size=(size, size, 3, 5)).astype("float32")
    expected = convolve_plainly(x, kernel, stride)
    chex.assert_trees_all_close(
        ops.convolve(jnp.asarray(x), jnp.asarray(kernel), stride),
        expected.astype("float32"),
        rtol=1e-4,
        atol=1e-5,
    )


def test_transposed_convolution_writes_each_pixel_its_own_block(rng):
    x = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    kernel = rng.normal(size=(2, 2, 5, 3)).astype("float32")
    expected = np.einsum("bhwi,yxio->bhywxo", x, kernel).reshape(2, 6, 8, 3)
    got = ops.convolve(jnp.asarray(x), jnp.asarray(kernel), 2, transposed=True)
    chex.assert_trees_all_close(got, expected, rtol=1e-4, atol=1e-5)


def test_space_to_depth_and_back(rng):
    x = jnp.asarray(rng.normal(size=(2, 4, 6, 3)).astype("float32"))
    tokens = space_to_depth(x, 2)
    chex.assert_shape(tokens, (2, 2, 3, 12))
    block = np.asarray(x)[1, 2:4, 4:6].ravel()
    chex.assert_trees_all_equal(tokens[1, 1, 2], block)
    chex.assert_trees_all_equal(depth_to_space(tokens, 2), x)


@pytest.mark.parametrize(("side", "mode"), [(5, "reflect"), (3, "edge"), (1, "edge")])
def test_padding_reflects_unless_the_side_is_too_short(rng, side, mode):
    x = rng.normal(size=(1, side, 8, 2)).astype("float32")
    expected = np.pad(x, ((0, 0), (0, 8 - side), (0, 0), (0, 0)), mode=mode)
    chex.assert_trees_all_equal(ops.pad_to_multiple(jnp.asarray(x), 8), expected)


def test_image_mean_is_per_image_and_skips_what_is_not_finite(rng):
    x = rng.normal(size=(2, 4, 5, 3)).astype("float32")
    expected = x.mean((1, 2, 3), keepdims=True)
    chex.assert_trees_all_close(ops.image_mean(jnp.asarray(x)), expected, rtol=1e-5)
    x[1, 0, 0, 0], x[1, 1, 1, 1] = np.nan, np.inf
    rest = x[1][np.isfinite(x[1])].mean()
    np.testing.assert_allclose(ops.image_mean(jnp.asarray(x))[1, 0, 0, 0], rest, 1e-5)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (jnp.zeros((8, 8, 3)), "x\\[None\\]"),
        (jnp.zeros((8, 8)), "expected \\[batch, height, width, channels\\]"),
        (jnp.zeros((1, 8, 8, 3), "uint8"), "got uint8"),
        (jnp.zeros((1, 0, 8, 3)), "at least one pixel"),
    ],
)
def test_what_is_no_batch_of_images_is_named(x, words):
    with pytest.raises(ValueError, match=words):
        ops.check_images(x)


def test_a_kernel_for_other_channels_is_named():
    with pytest.raises(ValueError, match="takes 4 channels"):
        ops.convolve(jnp.zeros((1, 8, 8, 3)), jnp.zeros((3, 3, 4, 2)))


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (2, 5, 9, 3), (1, 8, 16, 1)])
def test_padding_is_the_same_in_numpy(rng, shape):
    x = rng.uniform(size=shape).astype(np.float32)
    padded = ops.pad_to_multiple(x, 8)
    assert isinstance(padded, np.ndarray)
    np.testing.assert_array_equal(padded, ops.pad_to_multiple(jnp.asarray(x), 8))
