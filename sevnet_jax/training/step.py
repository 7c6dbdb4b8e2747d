"""One step of training, compiled once for all devices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax
from jax.sharding import Mesh

from sevnet_jax.runtime import compiler_options
from sevnet_jax.training import parallel
from sevnet_jax.training.optimizer import make_optimizer, make_schedule
from sevnet_jax.training.recipe import Recipe
from sevnet_jax.training.state import Tally, TrainState

# (params, frozen, batch, count) -> mean over rows; see objective.py
LossFn = Callable[[Any, Any, dict[str, Array], Array], Array]


def make_step(loss_fn: LossFn, recipe: Recipe, mesh: Mesh) -> Callable:
    """Returns the jitted (state, batch, frozen) -> (state, report).

    The old state is given up. `frozen` are an objective's parameters that stay.

    A step whose loss, gradient or new parameters are not finite changes nothing but
    the counters. `loss_fn` sees the whole batch, wherever its rows are.
    """
    optimizer, schedule = make_optimizer(recipe), make_schedule(recipe)

    def step(state: TrainState, batch: dict[str, Array], frozen: Any):
        loss, grads = _gradients(loss_fn, state, batch, frozen, recipe.accumulation)
        norm = optax.tree.norm(grads)
        updates, optimizer_state = optimizer.update(
            grads, state.optimizer, state.params
        )
        rate = schedule(state.step)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        good = jnp.isfinite(loss) & jnp.isfinite(norm)
        good &= jnp.isfinite(optax.tree.norm(params))

        def keep(new, old):
            return jax.tree.map(lambda n, o: jnp.where(good, n, o), new, old)

        average = state.average
        if average is not None:
            average = keep(_follow(average, params, state.step, recipe), average)
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


def _follow(average, params, step, recipe):
    """The running average; it forgets fast while the run is young."""
    done = step.astype(jnp.float32)
    decay = jnp.minimum(recipe.ema_decay, (1 + done) / (10 + done))
    return jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, average, params)


def _count(tally: Tally, loss, norm, good) -> Tally:
    bad = (~good).astype(jnp.int32)
    return Tally(
        loss=tally.loss + jnp.where(good, loss, 0),
        gradient_norm=tally.gradient_norm + jnp.where(good, norm, 0),
        steps=tally.steps + 1 - bad,
        skipped=tally.skipped + bad,
        skipped_in_row=(tally.skipped_in_row + 1) * bad,
    )
