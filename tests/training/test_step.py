"""One step: what it changes, what it refuses, on two devices."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sevnet_jax.training import parallel
from sevnet_jax.training.objective import Objective
from sevnet_jax.training.recipe import from_mapping, make_config
from sevnet_jax.training.step import create_state, make_step

RECIPE = from_mapping(
    make_config(
        "sevnet_s",
        {"width": 4, "blocks": ()},
        data={"batch_size": 4, "patch_size": 8},
        optimizer={
            "learning_rate": 1e-3,
            "schedule": "constant",
            "ema_decay": 0.99,
        },
        steps=100,
    )
)


def change(**fields):
    optimizer = dataclasses.replace(RECIPE.optimizer, **fields)
    return dataclasses.replace(RECIPE, optimizer=optimizer)


def build(recipe=RECIPE):
    objective = Objective(recipe)
    mesh = parallel.make_mesh(4, recipe.optimizer.accumulation)
    return objective, make_step(objective.loss, recipe, mesh)


def create(recipe=RECIPE):
    return jax.jit(lambda: create_state(Objective(recipe).model, recipe))()


@pytest.fixture(scope="module")
def plain():
    """The objective and the step of RECIPE, compiled once."""
    return build()


@pytest.fixture(scope="module")
def fresh_state():
    return copy(create())


@pytest.fixture
def state(fresh_state):
    return copy(fresh_state)  # a step gives up what it is given


@pytest.fixture
def batch(rng):
    clean = rng.uniform(size=(4, 8, 8, 3)).astype(np.float32)
    noise = rng.normal(size=clean.shape).astype(np.float32)
    return {"clean": clean, "noisy": clean + np.float32(0.05) * noise}


def copy(tree):
    return jax.tree.map(np.array, tree)


def test_a_step_is_adam_on_the_mean_loss(plain, state, batch):
    objective, step = plain
    before = copy(state)
    compute = jax.jit(jax.value_and_grad(objective.loss))
    loss, grads = compute(before.params, None, batch, 0)
    optimizer = optax.adam(1e-3)
    updates, _ = optimizer.update(grads, optimizer.init(before.params))
    expected = optax.apply_updates(before.params, updates)
    after, report = step(state, batch, None)
    chex.assert_trees_all_close(after.params, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(report["loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(after.tally.loss, loss, rtol=1e-6)
    np.testing.assert_allclose(
        after.tally.gradient_norm, optax.tree.norm(grads), rtol=1e-5
    )
    assert int(after.step) == 1


def test_the_average_follows_the_params(plain, state, batch):
    _, step = plain
    start = copy(state.params)
    after, _ = step(state, batch, None)
    after = copy(after)
    # At step 0 a tenth of the way is kept, 0.99 being for later.
    expected = jax.tree.map(lambda a, p: 0.1 * a + 0.9 * p, start, after.params)
    chex.assert_trees_all_close(after.average, expected, rtol=1e-5, atol=1e-7)
    late = after.replace(step=np.asarray(10_000, np.int32))
    average = copy(late.average)
    later, _ = step(late, batch, None)
    later = copy(later)
    expected = jax.tree.map(lambda a, p: 0.99 * a + 0.01 * p, average, later.params)
    chex.assert_trees_all_close(later.average, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_step_that_is_not_finite_changes_only_the_counters(plain, state, batch, bad):
    _, step = plain
    broken = {**batch, "noisy": batch["noisy"].copy()}
    broken["noisy"][0, 0, 0, 0] = bad
    state, _ = step(state, batch, None)
    before = copy(state)
    after, report = step(state, broken, None)
    assert not report["good"]
    chex.assert_trees_all_equal(after.params, before.params)
    chex.assert_trees_all_equal(after.optimizer, before.optimizer)
    chex.assert_trees_all_equal(after.average, before.average)
    assert int(after.step) == 2
    assert int(after.tally.skipped) == int(after.tally.skipped_in_row) == 1
    assert int(after.tally.steps) == 1
    after, report = step(after, batch, None)
    assert report["good"]
    assert int(after.tally.skipped) == 1
    assert int(after.tally.skipped_in_row) == 0


def test_params_that_overflow_are_refused(state, batch):
    """A finite gradient can still make an infinite step."""
    _, step = build(change(learning_rate=3e38))
    before = copy(state.params)
    after, report = step(state, batch, None)
    assert jnp.isfinite(report["loss"])
    assert not report["good"]
    chex.assert_trees_all_equal(after.params, before)


def test_accumulation_gives_the_same_step(plain, state, batch):
    _, whole = plain
    _, in_parts = build(change(accumulation=2))
    first, report = whole(copy(state), batch, None)
    second, report_in_parts = in_parts(copy(state), batch, None)
    np.testing.assert_allclose(report["loss"], report_in_parts["loss"], rtol=1e-6)
    chex.assert_trees_all_close(first.params, second.params, rtol=1e-3, atol=1e-5)


def test_the_second_order_network_is_stopped(plain, state, batch):
    """The product without its scaling grows as the square: far inputs overflow."""
    model = {**RECIPE.model, "gate": "igm_unscaled"}
    recipe = dataclasses.replace(RECIPE, model=model)
    _, step = build(recipe)
    second_order = create(recipe)
    huge = jax.tree.map(lambda a: a * np.float32(2.0**50), batch)
    before = copy(second_order.params)
    after, report = step(second_order, huge, None)
    assert not report["good"]
    chex.assert_trees_all_equal(after.params, before)
    # The scaled one takes the same batch.
    _, report = plain[1](state, huge, None)
    assert report["good"]


def test_a_batch_that_cannot_be_dealt_is_refused():
    with pytest.raises(ValueError, match="4 cannot be split over 2 devices in 3 parts"):
        parallel.make_mesh(4, accumulation=3)
