"""The state of a run as one pytree, and the pure step that updates it.

The step is compiled once for all devices.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax import Array, lax, stages
from jax.sharding import Mesh

from sevnet_jax.models import Network
from sevnet_jax.runtime import compiler_options
from sevnet_jax.training import parallel
from sevnet_jax.training.recipe import Optimizer, Recipe

# (params, frozen, batch, count) -> mean over rows; see objective.py
LossFn = Callable[[Any, Any, dict[str, Array], Array], Array]
INIT_SIDE = 32  # pixels of the image that tells the parameters' shapes


class Tally(struct.PyTreeNode):
    """What has been counted since the last line of the log, and skipped so far.

    It is a part of the state so that a resumed run writes the same lines.
    """

    loss: Array | np.ndarray  # sum over the steps that counted
    gradient_norm: Array | np.ndarray
    steps: Array | np.ndarray
    skipped: Array | np.ndarray  # in the whole run
    skipped_in_row: Array | np.ndarray

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


def create_state(model: Network, recipe: Recipe, params: Any = None) -> TrainState:
    """Returns the state before the first step, of `params` or as the seed has it."""
    # The counter-based generator compiles in a tenth of the default one's time.
    key = jax.random.key(recipe.seed, impl="rbg")
    image = jnp.zeros((1, INIT_SIDE, INIT_SIDE, model.channels), jnp.float32)
    if params is None:
        params = model.init(key, image)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        optimizer=make_optimizer(recipe.optimizer).init(params),
        # Its own memory: the step gives up all of the state it was given.
        average=jax.tree.map(jnp.copy, params) if recipe.optimizer.ema_decay else None,
        tally=jax.tree.map(jnp.asarray, empty_tally()),
    )


def make_schedule(config: Optimizer, steps: int) -> optax.Schedule:
    """Returns the learning rate as a function of the step."""
    peak, warmup = config.learning_rate, config.warmup_steps
    match config.schedule:
        case "step":
            interval = max(1, round(config.decay_every * steps))
            decays = range(interval, steps, interval)
            main = optax.piecewise_constant_schedule(
                peak, {step - warmup: config.decay_factor for step in decays}
            )
        case "cosine":
            length = max(1, steps - warmup)
            main = optax.cosine_decay_schedule(peak, length, config.final_factor)
        case _:
            main = optax.constant_schedule(peak)
    if not warmup:
        return main
    return optax.join_schedules(
        [optax.linear_schedule(0, peak, warmup), main], [warmup]
    )


def make_optimizer(config: Optimizer) -> optax.GradientTransformation:
    """Returns what turns gradients into steps for a learning rate of 1."""
    parts = [optax.scale_by_adam(config.b1, config.b2)]
    if config.clip_norm:
        parts.insert(0, optax.clip_by_global_norm(config.clip_norm))
    if config.weight_decay:
        parts.append(optax.add_decayed_weights(config.weight_decay))
    return optax.chain(*parts)


def make_step(loss_fn: LossFn, recipe: Recipe, mesh: Mesh) -> stages.Wrapped:
    """Returns the jitted (state, batch, frozen) -> (state, report).

    The old state is given up. `frozen` are an objective's parameters that stay.

    A step whose loss, gradient or new parameters are not finite changes nothing but
    the counters. `loss_fn` sees the whole batch, wherever its rows are.
    """
    config = recipe.optimizer
    optimizer, schedule = make_optimizer(config), make_schedule(config, recipe.steps)

    def step(state: TrainState, batch: dict[str, Array], frozen: Any):
        loss, grads = _gradients(loss_fn, state, batch, frozen, config.accumulation)
        norm = optax.tree.norm(grads)
        updates, optimizer_state = optimizer.update(
            grads, state.optimizer, state.params
        )
        rate = schedule(state.step)
        params = optax.apply_updates(state.params, optax.tree.scale(-rate, updates))
        good = jnp.isfinite(loss) & jnp.isfinite(norm)
        good &= jnp.isfinite(optax.tree.norm(params))

        def keep(new, old):
            return jax.tree.map(lambda n, o: jnp.where(good, n, o), new, old)

        average = state.average
        if average is not None:
            average = keep(
                _follow(average, params, state.step, config.ema_decay), average
            )
        new = TrainState(
            step=state.step + 1,
            params=keep(params, state.params),
            optimizer=keep(optimizer_state, state.optimizer),
            average=average,
            tally=_count(state.tally, loss, norm, good),
        )
        report = {
            "loss": loss,
            "good": good,
            "learning_rate": jnp.asarray(rate, jnp.float32),
            "tally": new.tally,
        }
        return new, report

    whole, rows = parallel.replicated(mesh), parallel.by_rows(mesh)
    return jax.jit(
        step,
        in_shardings=(whole, rows, whole),
        out_shardings=(whole, whole),
        donate_argnums=0,
        compiler_options=compiler_options(),
    )


def _gradients(loss_fn, state, batch, frozen, parts):
    """Loss and gradient, the batch taken in parts that follow one another."""
    compute = jax.value_and_grad(loss_fn)
    if parts == 1:
        return compute(state.params, frozen, batch, state.step)
    # Every part has rows of every device.
    stacked = jax.tree.map(
        lambda a: a.reshape(-1, parts, *a.shape[1:]).swapaxes(0, 1), batch
    )
    counts = state.step * parts + jnp.arange(parts)
    zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state.params))

    def add(sums, part):
        found = compute(state.params, frozen, *part)
        return jax.tree.map(jnp.add, sums, found), None

    total, _ = lax.scan(add, zero, (stacked, counts))
    return jax.tree.map(lambda value: value / parts, total)


def _follow(average, params, step, decay):
    """The running average; it forgets fast while the run is young."""
    done = step.astype(jnp.float32)
    return optax.incremental_update(
        params, average, 1 - jnp.minimum(decay, (1 + done) / (10 + done))
    )


def _count(tally: Tally, loss, norm, good) -> Tally:
    bad = (~good).astype(jnp.int32)
    return Tally(
        loss=tally.loss + jnp.where(good, loss, 0),
        gradient_norm=tally.gradient_norm + jnp.where(good, norm, 0),
        steps=tally.steps + 1 - bad,
        skipped=tally.skipped + bad,
        skipped_in_row=(tally.skipped_in_row + 1) * bad,
    )
