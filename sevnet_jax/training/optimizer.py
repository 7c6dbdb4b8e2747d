"""The learning rate over the run, and Adam without it."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jax import Array

from sevnet_jax.training.recipe import Recipe


def make_schedule(recipe: Recipe) -> Callable[[int | Array], Array]:
    """Returns the learning rate as a function of the step."""
    peak, warmup = recipe.learning_rate, recipe.warmup_steps
    match recipe.schedule:
        case "step":
            interval = max(1, round(recipe.decay_every * recipe.steps))
            main = optax.exponential_decay(
                peak, interval, recipe.decay_factor, staircase=True
            )
        case "cosine":
            cosine = optax.cosine_decay_schedule(
                peak, max(1, recipe.steps - warmup), recipe.final_factor
            )

            def main(step):
                return cosine(jnp.maximum(step - warmup, 0))

        case _:
            main = optax.constant_schedule(peak)
    if not warmup:
        return main
    return lambda step: jnp.minimum(1.0, step / warmup) * main(step)


def make_optimizer(recipe: Recipe) -> optax.GradientTransformation:
    """Returns what turns gradients into steps for a learning rate of 1."""
    parts = [optax.scale_by_adam(recipe.b1, recipe.b2)]
    if recipe.clip_norm:
        parts.insert(0, optax.clip_by_global_norm(recipe.clip_norm))
    if recipe.weight_decay:
        parts.append(optax.add_decayed_weights(recipe.weight_decay))
    return optax.chain(*parts)
