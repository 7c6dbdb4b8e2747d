"""What is trained, as the loop sees it."""

from typing import Any

from jax import Array

from sevnet_jax.training import losses
from sevnet_jax.training.recipe import Recipe


class Objective:
    """What is trained: parameters, their loss on a batch, and their use."""

    def __init__(self, recipe: Recipe):
        self.model = recipe.build_model()
        self.distance = losses.LOSSES[recipe.loss]

    def loss(self, params: Any, batch: dict[str, Array]) -> Array:
        return self.distance(self.restore(params, batch["noisy"]), batch["clean"])

    def restore(self, params: Any, noisy: Array) -> Array:
        return self.model.apply(params, noisy)
