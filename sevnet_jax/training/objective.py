"""What is trained: a denoiser, or a translator before a frozen denoiser."""

from typing import Any

import jax
from jax import Array

from sevnet_jax.models import Translated
from sevnet_jax.training import losses
from sevnet_jax.training.recipe import Recipe
from sevnet_jax.weights import Weights, load_denoiser


class Objective:
    """Parameters, their loss on a batch, and their use.

    `frozen` are parameters that take part and are not trained. `count` is the number of
    the batch in the whole run: what is random in a loss is a function of it.
    """

    frozen: Any = None
    denoiser: Weights | None = None

    def __init__(self, recipe: Recipe):
        self.model = recipe.build_model()
        self.distance = losses.LOSSES[recipe.loss]

    def loss(
        self, params: Any, frozen: Any, batch: dict[str, Array], count: Array | int
    ) -> Array:
        restored = self.restore(params, frozen, batch["noisy"])
        return self.distance(restored, batch["clean"])

    def restore(self, params: Any, frozen: Any, noisy: Array) -> Array:
        # Flax's type has the tuple that comes with mutable variables only.
        return self.model.apply(params, noisy)  # type: ignore[return-value]


class Translation(Objective):
    """A translator, judged by what a frozen denoiser makes of its images.

    Besides, what the translated image has of noise is to be white and Gaussian.
    """

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.denoiser = load_denoiser(recipe.denoiser)
        self.frozen = self.denoiser.params
        self.whole = Translated.of(self.model, self.denoiser.model)
        self.recipe = recipe

    def _run(self, params, frozen, noisy):
        variables = Translated.join(params, frozen)
        return self.whole.apply(variables, noisy, method="restore")

    def loss(self, params, frozen, batch, count):
        translated, restored = self._run(params, frozen, batch["noisy"])
        loss = self.distance(restored, batch["clean"])
        if self.recipe.noise_weight:
            key = jax.random.fold_in(jax.random.key(self.recipe.seed), count)
            loss += self.recipe.noise_weight * losses.distance_from_white(
                translated - batch["clean"], key, self.recipe.spectrum_weight
            )
        return loss

    def restore(self, params, frozen, noisy):
        return self._run(params, frozen, noisy)[1]


def make_objective(recipe: Recipe) -> Objective:
    """Returns the objective that the recipe asks for."""
    return Translation(recipe) if recipe.denoiser else Objective(recipe)
