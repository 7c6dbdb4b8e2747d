"""The training loop: takes batches through the step, logs, and ends the run."""

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax import stages

from sevnet_jax import config, weights
from sevnet_jax.data import pipeline
from sevnet_jax.models.base import check_tiles, find_shapes
from sevnet_jax.training import parallel
from sevnet_jax.training.checkpoint import FOLDER, Checkpoints
from sevnet_jax.training.export import (
    export_weights,
    find_hashes,
    is_exported,
    load_start,
)
from sevnet_jax.training.logs import Log
from sevnet_jax.training.objective import make_objective
from sevnet_jax.training.recipe import Recipe
from sevnet_jax.training.step import TrainState, create_state, make_step
from sevnet_jax.training.watch import Monitor, Validation, describe_scores
from sevnet_jax.training.workdir import (
    check_fresh,
    claim,
    describe_start,
    has_checkpoint,
    read_start,
    save_config,
)

ASK_EVERY = 10  # steps between the hosts' agreements on whether to stop
WARM_AFTER, TRACED = 10, 5  # steps before and in the trace that is written on request


class Diverged(Exception):
    """Too many steps in a row, up to `step`, had no finite gradient."""

    def __init__(self, message: str, step: int):
        super().__init__(message)
        self.step = step


def train(
    recipe: Recipe,
    workdir: str | Path,
    *,
    config_file: str | Path | None = None,
    accept_changes: bool = False,
    profile: bool = False,
    terminal: bool = False,
) -> TrainState:
    """Trains to the recipe's last step and returns the state; resumes what is there.

    `config_file` is where the recipe comes from, if from a file: its parts are then
    known to whoever uses the weights (see config.py).

    SIGTERM and SIGINT end it early, with a checkpoint. Raises `Diverged` if training
    does, ValueError and OSError if the recipe, the data or the disk will not do.
    """
    folder = Path(workdir)
    # Now: what is written into the file later is not what is trained here.
    origin = config.remember(config_file) if config_file else None
    recipe = parallel.on_all(lambda: resolve_epochs(recipe))
    if not parallel.is_same(parallel.on_all(lambda: has_checkpoint(folder))):
        raise ValueError(
            f"the hosts do not see the same checkpoints in {str(folder)!r}; they need "
            "one disk"
        )
    begun = parallel.on_all(lambda: read_start(folder, recipe))
    hashes = parallel.on_all(lambda: find_hashes(recipe, begun))
    if config_file and origin:
        # Numbers are compared one by one; code only by its file.
        own = config.defines_parts(config_file)
        hashes["config"] = origin["sha256"] if own else "no parts"
    mesh = parallel.make_mesh(recipe.data.batch_size, recipe.optimizer.accumulation)
    whole = parallel.replicated(mesh)
    with contextlib.ExitStack() as stack:

        def prepare() -> Validation:
            # First: a bad network or source leaves no trace.
            model = recipe.build_model()
            find_shapes(model)
            check_tiles(model)  # now, and not when its weights are used
            validation = Validation(recipe.watch, recipe.seed, model.channels)
            stack.enter_context(claim(folder, recipe, hashes, accept_changes))
            return validation

        stopped = stack.enter_context(catch_signals())
        validation = parallel.on_first(prepare)
        objective = parallel.on_all(lambda: make_objective(recipe))
        given = parallel.on_all(lambda: None if begun else load_start(recipe))
        begun = describe_start(given) if given else begun
        watch = recipe.watch
        checkpoints = Checkpoints(
            folder / FOLDER,
            watch.keep_last,
            watch.keep_every,
            describe_scores(watch, recipe.seed),
        )
        stack.callback(checkpoints.close)
        create = jax.jit(
            lambda params: create_state(objective.model, recipe, params),
            out_shardings=whole,
        )
        state = create(given.params if given else None)
        found = checkpoints.restore(state)
        if found is None:
            parallel.on_first(lambda: check_fresh(folder))
        state = found or state
        start, log = int(state.step), None
        history = parallel.on_first(
            lambda: save_config(folder, recipe, hashes, start, begun)
        )
        if parallel.is_first():
            log = Log(folder, start, recipe.steps, terminal)
            stack.callback(log.close)
        monitor = Monitor(recipe, objective, checkpoints, validation, log, start, whole)
        monitor.say(f"training on {parallel.describe_devices()}")
        if start:
            monitor.say(f"resumed at step {start} of {recipe.steps}")
        frozen = jax.device_put(objective.frozen, whole)
        if start < recipe.steps:
            batches = make_batches(recipe, objective.model.channels, start, mesh)
            step = make_step(objective.loss, recipe, mesh)
            trace = folder / "profile" if profile and parallel.is_first() else None
            state = _run(
                recipe, state, step, batches, frozen, monitor, log, stopped, trace
            )
        checkpoints.wait()
        if int(state.step) >= recipe.steps:
            path = folder / weights.FILE

            def export() -> None:
                # Once: today's versions would give the same weights another hash.
                if start < recipe.steps or not is_exported(path, start):
                    export_weights(
                        path, state, recipe, begun, objective.denoiser, origin, history
                    )

            parallel.on_first(export)
            monitor.say(f"weights: {path}")
        return state


def resolve_epochs(recipe: Recipe) -> Recipe:
    """Returns the recipe with its length in steps."""
    images = pipeline.count_images(recipe.data)  # also if there are any
    if not recipe.epochs:
        return recipe
    per_epoch = -(-images // recipe.data.batch_size)
    return dataclasses.replace(recipe, steps=recipe.epochs * per_epoch, epochs=0)


def make_batches(
    recipe: Recipe, channels: int, start: int, mesh: jax.sharding.Mesh
) -> Iterator[dict[str, jax.Array]]:
    """Returns the batches from a step on, on the devices."""
    rows = pipeline.make_batches(
        recipe.data,
        start,
        seed=recipe.seed,
        channels=channels,
        host=jax.process_index(),
        hosts=jax.process_count(),
    )
    return pipeline.prefetch_to_device(rows, parallel.by_rows(mesh))


def _run(
    recipe: Recipe,
    state: TrainState,
    step_fn: stages.Wrapped,
    batches: Iterator[dict[str, jax.Array]],
    frozen,
    monitor: Monitor,
    log: Log | None,
    stopped: threading.Event,
    trace: Path | None,
) -> TrainState:
    """Returns the state after the last step, or after the one that was stopped at."""
    start, last = int(state.step), recipe.steps
    batch = next(batches)
    began = time.perf_counter()
    compiled = step_fn.lower(state, batch, frozen).compile()
    monitor.say(f"compiled the step in {time.perf_counter() - began:.1f} s")
    monitor.start_clock()
    traced = range(min(start + WARM_AFTER, last), last)[:TRACED] if trace else range(0)

    def look(step: int, report: dict) -> None:
        """Waits for a step, and ends the run if it has gone astray for too long."""
        good, in_row = jax.device_get((report["good"], report["tally"].skipped_in_row))
        if log:
            log.advance()
        if not good:
            monitor.say(
                f"step {step}: the loss or its gradient is not finite; skipped "
                f"({int(in_row)} in a row)"
            )
        if in_row >= recipe.optimizer.max_skipped:
            monitor.save_good(step - int(in_row), state)
            raise Diverged(
                f"no finite gradient for {int(in_row)} steps up to step {step}; the "
                "last good state is kept in the run's checkpoints",
                step,
            )
        monitor.raise_if_failed()

    report = None
    for step in range(start + 1, last + 1):
        if traced and step == traced.start:
            jax.profiler.start_trace(str(trace))
        if traced and step == traced.stop:
            jax.block_until_ready(state)
            jax.profiler.stop_trace()
            monitor.say(f"profile of {len(traced)} steps: {trace}")
        # Python looks at a step while the devices are busy with the next one.
        previous = report
        state, report = compiled(state, batch, frozen)
        if previous is not None:
            look(step - 1, previous)
        ask = jax.process_count() == 1 or step % ASK_EVERY == 0
        stop = ask and parallel.any_process(stopped.is_set())
        if stop or monitor.is_due(step):
            look(step, report)
            state = monitor.pause(step, state, frozen, report, stop)
            report = None
        if stop:
            monitor.say(
                f"stopped by a signal at step {step} and saved; rerun the same command "
                "to resume"
            )
            return state
        if step < last:
            try:
                batch = next(batches)
            except OSError:
                if jax.process_count() == 1:  # saving takes all hosts, who train on
                    monitor.save(int(state.step), state)
                    monitor.wait()
                raise
    return state


@contextlib.contextmanager
def catch_signals() -> Iterator[threading.Event]:
    """Notes SIGTERM and SIGINT in an event; a second one acts as usual."""
    noted = threading.Event()
    old: dict[int, Any] = {}

    def note(number, frame):
        noted.set()
        signal.signal(number, old[number])

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            old[number] = signal.signal(number, note)
    try:
        yield noted
    finally:
        for caught, handler in old.items():
            signal.signal(caught, handler)
