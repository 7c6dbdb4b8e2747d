"""Every preset lowers for accelerators that are not here, with XLA's convolution."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax import export

from sevnet_jax import create_model, list_models

# The smallest ones and the baselines are shapes of these. Rivals have their own test.
LEFT_OUT = {"unet_relu_s", *list_models("rival")}


@pytest.mark.parametrize(
    "name", [n for n in list_models() if not n.endswith("xs") and n not in LEFT_OUT]
)
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
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
