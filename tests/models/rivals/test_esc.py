"""ESC's kernels and its attention, which must not fill the memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sevnet_jax.models.rivals import esc


def test_the_large_kernel_is_a_mean_over_the_square(rng):
    weight = rng.normal(size=(3, 2, 5, 5)).astype("f4")
    turned = [np.rot90(weight, turns, (2, 3)) for turns in range(4)]
    images = [*turned, *(np.flip(image, 2) for image in turned)]
    expected = np.mean(images, 0).transpose(2, 3, 1, 0)
    np.testing.assert_allclose(esc.symmetrize(jnp.asarray(weight)), expected, atol=1e-6)


@pytest.mark.parametrize("logits", [1, 3 * 2 * 4**4])
def test_windows_in_groups_give_the_same(rng, draw_params, monkeypatch, logits):
    x = jnp.asarray(rng.normal(size=(2, 7, 13, 6)), "float32")
    layer = esc.WindowAttention(heads=2, window=4)
    params = draw_params(layer, x)

    def loss(params, x):
        return jnp.sin(layer.apply(params, x)).sum()

    def differentiate():
        compiled = jax.jit(jax.value_and_grad(loss, (0, 1)))
        return jax.tree.leaves(compiled(params, x))

    at_once = differentiate()
    monkeypatch.setattr(esc, "LOGITS", logits)
    for first, second in zip(at_once, differentiate(), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_images_of_a_batch_have_kernels_of_their_own(rng):
    images = jnp.asarray(rng.uniform(size=(2, 6, 7, 5)), "float32")
    kernel = jnp.asarray(rng.normal(size=(5, 5, 4, 4)), "float32")
    layer = esc.ConvAttention()
    params = jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), "float32"),
        jax.eval_shape(layer.init, jax.random.key(0), images, kernel),
    )
    apply = jax.jit(layer.apply)
    together = apply(params, images, kernel)
    for image, mapped in zip(images, together, strict=True):
        alone = apply(params, image[None], kernel)[0]
        np.testing.assert_allclose(mapped, alone, rtol=1e-4, atol=1e-4)


def test_attention_at_full_size_takes_no_gigabyte():
    """Compiled only. The logits of all windows alone would be one."""
    x = jax.ShapeDtypeStruct((1, 256, 256, 64), jnp.float32)
    layer = esc.WindowAttention(heads=4, window=32)
    params = jax.eval_shape(layer.init, jax.random.key(0), x)

    @jax.jit
    def differentiate(params, x):
        return jax.grad(lambda params: layer.apply(params, x).sum())(params)

    used = differentiate.lower(params, x).compile().memory_analysis()
    assert used.temp_size_in_bytes < 5e8
