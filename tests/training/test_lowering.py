"""The whole train step lowers to programs for GPUs and TPUs."""

import jax
import pytest
from jax import export

from sevnet_jax.training import parallel
from sevnet_jax.training.objective import Objective
from sevnet_jax.training.recipe import from_mapping, make_config
from sevnet_jax.training.step import create_state, make_step


@pytest.mark.parametrize(
    "preset",
    [
        "sevnet_xs",
        pytest.param("sevnet_s", marks=pytest.mark.slow),
        pytest.param("sevnet", marks=pytest.mark.slow),
    ],
)
def test_the_train_step_lowers_for_accelerators(preset):
    recipe = from_mapping(make_config(preset, data={"batch_size": 4, "patch_size": 64}))
    objective = Objective(recipe)
    state = jax.eval_shape(lambda: create_state(objective.model, recipe))
    image = jax.ShapeDtypeStruct((4, 64, 64, 3), "float32")
    step = make_step(objective.loss, recipe, parallel.make_mesh(4))
    exported = export.export(step, platforms=["cuda", "tpu"])(
        state, {"clean": image, "noisy": image}, None
    )
    text = exported.mlir_module()
    # XLA's own convolutions for accelerators, forward and backward.
    assert text.count("stablehlo.convolution") > 20
    assert exported.platforms == ("cuda", "tpu")
