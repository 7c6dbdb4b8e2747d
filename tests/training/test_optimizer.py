"""The schedules against their formulas, the optimizer against Adam by hand."""

import dataclasses
import math

import numpy as np
import pytest

from sevnet_jax.training.recipe import Optimizer
from sevnet_jax.training.step import make_optimizer, make_schedule

PAPER = Optimizer(learning_rate=2e-4)


def test_rate_is_halved_each_fifth_of_the_run():
    schedule = make_schedule(PAPER, 1000)
    for step, halvings in [(0, 0), (199, 0), (200, 1), (599, 2), (600, 3), (999, 4)]:
        assert float(schedule(step)) == pytest.approx(2e-4 * 0.5**halvings)


def test_cosine_ends_where_it_should():
    config = dataclasses.replace(
        PAPER, schedule="cosine", warmup_steps=100, final_factor=0.1
    )
    schedule = make_schedule(config, 1000)
    assert float(schedule(0)) == 0
    assert float(schedule(50)) == pytest.approx(1e-4)
    assert float(schedule(100)) == pytest.approx(2e-4)
    quarter = 0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2
    assert float(schedule(325)) == pytest.approx(2e-4 * quarter)
    assert float(schedule(1000)) == pytest.approx(2e-5)


def test_warmup_does_not_shift_the_halvings():
    config = dataclasses.replace(PAPER, warmup_steps=10)
    schedule = make_schedule(config, 1000)
    assert float(schedule(199)) == pytest.approx(2e-4)
    assert float(schedule(200)) == pytest.approx(1e-4)


def test_optimizer_is_adam(rng):
    optimizer = make_optimizer(PAPER)
    params = {"w": rng.normal(size=5).astype(np.float32)}
    state = optimizer.init(params)
    m = v = np.zeros(5)
    for step in range(1, 4):
        g = rng.normal(size=5).astype(np.float32)
        updates, state = optimizer.update({"w": g}, state, params)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        expected = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        np.testing.assert_allclose(updates["w"], expected, rtol=1e-4)


def test_clipping_bounds_the_whole_gradient():
    """Adam forgets a constant scale, so clipping shows only on a sudden gradient."""
    config = dataclasses.replace(PAPER, clip_norm=1.0)
    grads = {"a": np.full(4, 3.0, np.float32), "b": np.full(4, 4.0, np.float32)}
    small = {name: g / 10.0 for name, g in grads.items()}  # its norm is 1
    results = []
    for sudden in (grads, small):
        optimizer = make_optimizer(config)
        state = optimizer.init(grads)
        tiny = {name: g * np.float32(1e-3) for name, g in grads.items()}
        _, state = optimizer.update(tiny, state, grads)
        updates, _ = optimizer.update(sudden, state, grads)
        results.append(updates)
    np.testing.assert_allclose(results[0]["a"], results[1]["a"], rtol=1e-5)


def test_weight_decay_pulls_without_gradient():
    optimizer = make_optimizer(dataclasses.replace(PAPER, weight_decay=0.1))
    params = {"w": np.full(3, 2.0, np.float32)}
    zero = {"w": np.zeros(3, np.float32)}
    updates, _ = optimizer.update(zero, optimizer.init(params), params)
    np.testing.assert_allclose(updates["w"], 0.2, rtol=1e-6)
