"""Every preset lowers for accelerators that are not here, with XLA's convolution."""

import itertools
import re

import jax
import jax.numpy as jnp
import pytest
from jax import export

from sevnet_jax import create_model, list_models

# Rivals have a test of their own.
OURS = [name for name in list_models() if name not in list_models("rival")]
QUICK = [("sevnet_xs", "cuda"), ("sevnet_xs", "tpu"), ("unet_relu_xs", "cpu")]


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in itertools.product(OURS, ("cpu", "cuda", "tpu"))
    ],
)
def test_forward_and_gradient_lower(name, platform):
    model = create_model(name)
    images = jax.ShapeDtypeStruct((2, 64, 64, 3), jnp.float32)
    params = jax.eval_shape(model.init, jax.random.key(0), images)

    def loss(params, images):
        return jnp.abs(model.apply(params, images)).mean()

    program = export.export(jax.jit(jax.value_and_grad(loss)), platforms=[platform])(
        params, images
    )
    assert program.platforms == (platform,)
    if platform == "cpu":
        return
    # Layers of one shape share a program: one convolution forward, two backward, but
    # for the head, which has no input to differentiate. No matrix product stands in
    # for any of them.
    kernels = [leaf for leaf in jax.tree.leaves(params) if len(leaf.shape) == 4]
    text = program.mlir_module()
    for direction in ("forward", "backward"):
        assert len(re.findall(rf"call @_{direction}\w*\(", text)) == len(kernels)
    shapes = len(re.findall(r"func private @_forward\w*\(", text))
    assert 5 < shapes < len(kernels)
    assert text.count("stablehlo.convolution(") == 3 * shapes - 1
    assert "stablehlo.dot_general" not in text
    assert "stablehlo.custom_call" not in text
