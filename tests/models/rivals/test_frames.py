"""The shared U-shapes, and local pooling against a mean box by box."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from sevnet_jax.models.rivals import frames, naf


def test_local_pooling_is_a_box_mean_with_repeated_borders(rng):
    x = jnp.asarray(rng.normal(size=(2, 9, 7, 3)), "float32")
    boxes = np.stack(
        [
            np.stack([x[:, i : i + 4, j : j + 4].mean((1, 2)) for j in range(4)], 1)
            for i in range(6)
        ],
        1,
    )
    expected = np.pad(boxes, ((0, 0), (1, 2), (1, 2), (0, 0)), mode="edge")
    np.testing.assert_allclose(naf.pool_mean(x, 4), expected, atol=1e-6)
    columns = naf.pool_mean(x, 8)  # as wide as the image, not as high
    np.testing.assert_allclose(columns[:, 0], columns[:, 0, :1].repeat(7, 1), atol=1e-6)
    for side in (9, None):
        whole = x.mean((1, 2), keepdims=True)
        np.testing.assert_allclose(naf.pool_mean(x, side), whole, atol=1e-6)


def test_pools_are_one_and_a_half_patches():
    assert naf.find_pools(256, 4) == (384, 192, 96, 48, 24)
    assert naf.find_pools(32, 4) == (48, 24, 12, 6, 3)
    assert naf.find_pools(None, 2) == (None, None, None)


def test_frames_keep_their_skips_apart():
    """Each stage sees the width of its level; the decoders, the encoders' features."""
    seen = []

    class Both(nn.Module):
        @nn.compact
        def __call__(self, x):
            def stage(name, level, y):
                seen.append((name, level, y.shape[1:]))
                return y

            first = frames.run_restormer_frame(x, stage)
            return first, frames.run_naf_frame(x, 2, stage)

    x = jax.ShapeDtypeStruct((1, 8, 16, 4), jnp.float32)
    shapes = jax.eval_shape(Both().init_with_output, jax.random.key(0), x)
    first, (encoded, decoded) = shapes[0]
    assert first.shape == (1, 8, 16, 8)
    assert [y.shape for y in encoded] == [(1, 8, 16, 4), (1, 4, 8, 8)]
    assert [y.shape for y in decoded] == [(1, 4, 8, 8), (1, 8, 16, 4)]
    assert seen[3] == ("latent", 3, (1, 2, 32))
    assert seen[4] == ("decoder_level3", 2, (2, 4, 16))
    assert seen[6:8] == [
        ("decoder_level1", 0, (8, 16, 8)),
        ("refinement", 0, (8, 16, 8)),
    ]
    assert [s[0] for s in seen[8:]] == [
        "encoders.0",
        "encoders.1",
        "middle_blks",
        "decoders.0",
        "decoders.1",
    ]
