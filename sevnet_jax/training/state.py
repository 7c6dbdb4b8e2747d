"""All that changes during training, in one pytree."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import struct
from jax import Array

from sevnet_jax.training.optimizer import make_optimizer
from sevnet_jax.training.recipe import Recipe

INIT_SIDE = 32  # pixels of the image that tells the parameters' shapes


class Tally(struct.PyTreeNode):
    """What has been counted since the last line of the log, and skipped so far.

    It is a part of the state so that a resumed run writes the same lines.
    """

    loss: Array  # sum over the steps that counted
    gradient_norm: Array
    steps: Array
    skipped: Array  # in the whole run
    skipped_in_row: Array

    def summarize(self) -> dict[str, float]:
        """Returns means over the steps; of no steps, no loss."""
        count = max(1, int(self.steps))
        return {
            "loss": float(self.loss / count) if self.steps else math.nan,
            "gradient_norm": float(self.gradient_norm / count),
            "skipped": int(self.skipped),
        }


class TrainState(struct.PyTreeNode):
    """`step` is the number of steps done, thus the number of the next batch."""

    step: Array
    params: Any
    optimizer: optax.OptState
    average: Any  # of the params over the steps; None without
    tally: Tally

    @property
    def kept_params(self) -> Any:
        """What is validated and shipped."""
        return self.params if self.average is None else self.average


def empty_tally(skipped: int = 0, skipped_in_row: int = 0) -> Tally:
    """Returns a tally of no steps; NumPy, each value with memory of its own."""
    return Tally(
        loss=np.zeros((), np.float32),
        gradient_norm=np.zeros((), np.float32),
        steps=np.zeros((), np.int32),
        skipped=np.asarray(skipped, np.int32),
        skipped_in_row=np.asarray(skipped_in_row, np.int32),
    )


def create_state(model: nn.Module, recipe: Recipe, params: Any = None) -> TrainState:
    """Returns the state before the first step, of `params` or as the seed has it."""
    # The counter-based generator compiles in a tenth of the default one's time.
    key = jax.random.key(recipe.seed, impl="rbg")
    image = jnp.zeros((1, INIT_SIDE, INIT_SIDE, model.channels), jnp.float32)
    if params is None:
        params = model.init(key, image)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        optimizer=make_optimizer(recipe).init(params),
        # Its own memory: the step gives up all of the state it was given.
        average=jax.tree.map(jnp.copy, params) if recipe.ema_decay else None,
        tally=jax.tree.map(jnp.asarray, empty_tally()),
    )
