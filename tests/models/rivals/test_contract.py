"""Every rival keeps the house's contract: sizes, types, gradients, platforms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import eval as command
from sevnet_jax.models import create_model, list_models
from sevnet_jax.models.rivals import official

every_rival = pytest.mark.parametrize("name", official.list_originals())
SMALLEST = [f"{name}_xs" for name in official.list_originals()]


@every_rival
@pytest.mark.parametrize("channels", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_any_size_and_type(name, channels):
    network = create_model(f"{name}_xs", channels=channels)
    assert network.reach is None or network.reach % network.multiple == 0
    image = jax.ShapeDtypeStruct((2, 1, 1, channels), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.key(0), image)
    for leaf in jax.tree.leaves(params):
        assert leaf.dtype == jnp.float32
    for sides, dtype in (((3, 21), "bfloat16"),):  # 1x1 float32: just traced
        image = jax.ShapeDtypeStruct((2, *sides, channels), dtype)
        restored = jax.eval_shape(network.apply, params, image)
        assert (restored.shape, restored.dtype) == (image.shape, image.dtype)


@every_rival
def test_wrong_images_are_refused(name):
    network = create_model(f"{name}_xs")
    with pytest.raises(ValueError, match="3 channels last"):
        jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 8, 8, 4)))


def test_every_original_has_its_presets():
    assert {*SMALLEST, *official.list_originals()} <= {*list_models("rival")}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_are_finite(name, dtype, rng, draw_params):
    network = create_model(name)
    image = jnp.asarray(rng.uniform(size=(1, 17, 20, 3)), dtype)
    params = draw_params(network, image)

    @jax.jit
    def differentiate(params, image):
        def loss(params, image):
            return jnp.square(network.apply(params, image).astype("float32")).mean()

        return jax.value_and_grad(loss, (0, 1))(params, image)

    for values in (image, jnp.zeros_like(image)):
        for leaf in jax.tree.leaves(differentiate(params, values)):
            assert jnp.isfinite(leaf).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_bfloat16_is_near(name, rng, draw_params):
    network = create_model(name)
    image = jnp.asarray(rng.uniform(size=(1, 32, 32, 3)), "float32")
    params = draw_params(network, image)  # fresh ones would hide blocks behind zeros
    restore = jax.jit(network.apply)
    exact = restore(params, image)
    error = restore(params, image.astype("bfloat16")).astype("float32") - exact
    assert np.std(error) < 0.1 * np.std(exact)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SMALLEST, "sevnet_xs"])
def test_rivals_break_the_law_that_ours_keeps(name, rng, draw_params):
    network = create_model(name)
    image = jnp.asarray(rng.uniform(size=(1, 16, 16, 3)), "float32")
    params = draw_params(network, image)
    restore = jax.jit(network.apply)
    expected = 2 * np.asarray(restore(params, image))
    error = restore(params, 2 * image) - expected
    broken = np.abs(error).max() > 0.1 * np.abs(expected).max()
    assert broken == (not network.keeps_the_law)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_forward_and_gradient_lower(name, platform):
    network = create_model(name)
    images = jax.ShapeDtypeStruct((2, 64, 64, 3), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.key(0), images)

    def loss(params, images):
        return jnp.abs(network.apply(params, images)).mean()

    program = export.export(jax.jit(jax.value_and_grad(loss)), platforms=[platform])(
        params, images
    )
    assert program.platforms == (platform,)


@pytest.mark.slow
@every_rival
def test_the_kit_finds_what_breaks_the_law(name, tmp_path, capsys):
    argv = ["equivariance", "--model", f"{name}_xs", "--size", "16", "--no-biases"]
    assert command.main([*argv, "--out", str(tmp_path / "law.png")]) == 1
    said = capsys.readouterr().out
    _, culprits = said.split("The law is broken by")
    assert ("DeformableConv" if name == "sadnet" else "Norm") in culprits
    rows = [line.split() for line in said.splitlines()]
    assert any("=" in row and row[-1] == "yes" for row in rows)  # parts that keep it
