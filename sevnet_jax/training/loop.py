"""The loop: data, steps, validation, checkpoints, and the end of a run."""

import contextlib
import dataclasses
import logging
import platform
import time
from pathlib import Path

import flax
import jax
import numpy as np

from sevnet_jax.data import pipeline
from sevnet_jax.inference import weights
from sevnet_jax.runtime import compiler_options
from sevnet_jax.training import parallel
from sevnet_jax.training.checkpoint import Checkpoints
from sevnet_jax.training.logs import Log, clock
from sevnet_jax.training.objective import Objective
from sevnet_jax.training.recipe import Recipe, to_config
from sevnet_jax.training.signals import catch_signals
from sevnet_jax.training.state import TrainState, create_state, empty_tally
from sevnet_jax.training.step import make_step
from sevnet_jax.training.validation import Validation
from sevnet_jax.training.workdir import claim

WEIGHTS = "weights.safetensors"
ASK_EVERY = 10  # steps between the hosts' agreements on whether to stop
PROFILED = range(10, 15)  # steps after the start that --profile records

_log = logging.getLogger(__name__)


class Diverged(Exception):
    """Too many steps in a row had no finite gradient."""


def train(
    recipe: Recipe,
    workdir: str | Path,
    *,
    accept_changes: bool = False,
    profile: bool = False,
    terminal: bool = False,
) -> TrainState:
    """Trains to the recipe's last step and returns the state; resumes what is there.

    SIGTERM and SIGINT end it early, with a checkpoint. Raises `Diverged` if training
    does, ValueError and OSError if the recipe, the data or the disk will not do.
    """
    folder = Path(workdir)
    recipe = resolve_epochs(recipe)
    mesh = parallel.make_mesh(recipe.batch_size, recipe.accumulation)
    with contextlib.ExitStack() as stack:

        def prepare() -> Validation:
            validation = Validation(recipe)  # first: a bad source leaves no trace
            stack.enter_context(claim(folder, recipe, accept_changes))
            return validation

        run = _Run(recipe, folder, mesh, parallel.on_first(prepare), terminal)
        stack.callback(run.close)
        stopped = stack.enter_context(catch_signals())
        return run.go(stopped, profile)


def resolve_epochs(recipe: Recipe) -> Recipe:
    """Returns the recipe with its length in steps."""
    images = pipeline.count_images(data_config(recipe))  # also if there are any
    if not recipe.epochs:
        return recipe
    per_epoch = -(-images // recipe.batch_size)
    return dataclasses.replace(recipe, steps=recipe.epochs * per_epoch, epochs=0)


def data_config(recipe: Recipe) -> pipeline.Config:
    names = [field.name for field in dataclasses.fields(pipeline.Config)]
    return pipeline.Config(**{name: getattr(recipe, name) for name in names})


class _Run:
    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        mesh: jax.sharding.Mesh,
        validation: Validation | None,
        terminal: bool,
    ):
        self.recipe, self.folder, self.mesh = recipe, folder, mesh
        self.validation = validation
        self.objective = Objective(recipe)
        whole = parallel.replicated(mesh)
        create = jax.jit(
            lambda: create_state(self.objective.model, recipe), out_shardings=whole
        )
        self.checkpoints = Checkpoints(
            folder / "checkpoints", recipe.keep_last, recipe.keep_every
        )
        state = create()
        self.state = self.checkpoints.restore(state) or state
        self.start = int(self.state.step)
        self.log = None
        if parallel.is_first():
            self.restore = jax.jit(
                self.objective.restore, compiler_options=compiler_options()
            )
            self.log = Log(folder, self.start, recipe.steps, terminal)

    def say(self, text: str) -> None:
        if self.log:
            self.log.say(text)

    def close(self) -> None:
        self.checkpoints.close()
        if self.log:
            self.log.close()

    def go(self, stopped, profile: bool) -> TrainState:
        recipe = self.recipe
        self.say(f"training on {parallel.describe_devices()}")
        if self.start:
            self.say(f"resumed at step {self.start} of {recipe.steps}")
        if self.start < recipe.steps:
            self._train(stopped, profile)
        self.checkpoints.wait()
        if int(self.state.step) >= recipe.steps:
            parallel.on_first(self._write_weights)
        return self.state

    def _train(self, stopped, profile: bool) -> None:
        recipe = self.recipe
        batches = pipeline.prefetch_to_device(
            pipeline.make_batches(
                data_config(recipe),
                self.start,
                jax.process_index(),
                jax.process_count(),
            ),
            parallel.by_rows(self.mesh),
        )
        batch = next(batches)
        began = time.perf_counter()
        step_fn = make_step(self.objective.loss, recipe, self.mesh)
        step_fn = step_fn.lower(self.state, batch).compile()
        self.say(f"compiled the step in {time.perf_counter() - began:.1f} s")
        self._began, self._counted = time.perf_counter(), self.start
        report = None
        for step in range(self.start + 1, recipe.steps + 1):
            if profile and parallel.is_first():
                self._profile(step - self.start)
            # Python looks at a step while the devices are busy with the next one.
            previous = report
            self.state, report = step_fn(self.state, batch)
            if previous is not None:
                self._look(step - 1, previous)
            pause = _divides(recipe.log_every, step, recipe.steps)
            pause |= _divides(recipe.validation_every, step, recipe.steps)
            pause |= _divides(recipe.checkpoint_every, step, recipe.steps)
            ask = jax.process_count() == 1 or step % ASK_EVERY == 0
            stop = ask and parallel.any_process(stopped.is_set())
            if pause or stop:
                self._look(step, report)
                report = None
                self._pause(step, stop)
            if stop:
                self.say(
                    f"stopped by a signal at step {step}, saved; the same command "
                    "goes on from there"
                )
                return
            if step < recipe.steps:
                batch = next(batches)

    def _look(self, step: int, report: dict) -> None:
        """Waits for a step, and ends the run if it has gone astray for too long."""
        self._last = report
        good, in_row = jax.device_get((report["good"], report["tally"].skipped_in_row))
        if self.log:
            self.log.advance()
        if not good:
            self.say(
                f"step {step}: the loss or its gradient is not finite; skipped "
                f"({int(in_row)} in a row)"
            )
        if in_row >= self.recipe.max_skipped:
            self.checkpoints.wait()
            self.checkpoints.save(int(self.state.step), self.state)
            self.checkpoints.wait()
            raise Diverged(
                f"no finite gradient for {int(in_row)} steps up to step {step}; the "
                f"last good state is kept in {self.folder / 'checkpoints'}"
            )
        self.checkpoints.raise_if_failed()

    def _pause(self, step: int, stop: bool) -> None:
        recipe = self.recipe
        if _divides(recipe.log_every, step, recipe.steps):
            self._write_line(step)
        score = None
        if _divides(recipe.validation_every, step, recipe.steps):
            score = self._validate(step)
        if stop or _divides(recipe.checkpoint_every, step, recipe.steps):
            self.checkpoints.save(step, self.state, score)

    def _write_line(self, step: int) -> None:
        tally = jax.device_get(self.state.tally)
        count = max(1, int(tally.steps))
        now = time.perf_counter()
        speed = (step - self._counted) / max(now - self._began, 1e-9)
        self._began, self._counted = now, step
        values = {
            "loss": float(tally.loss / count) if tally.steps else float("nan"),
            "gradient_norm": float(tally.gradient_norm / count),
            "learning_rate": float(self._last["learning_rate"]),
            "skipped": int(tally.skipped),
            "images_per_second": speed * self.recipe.batch_size,
        }
        if self.log:
            self.log.scalars(step, "train", values)
            left = (self.recipe.steps - step) / max(speed, 1e-9)
            self.log.progress(step, values, left)
        empty = empty_tally(tally.skipped, tally.skipped_in_row)
        empty = jax.device_put(empty, parallel.replicated(self.mesh))
        self.state = self.state.replace(tally=empty)

    def _validate(self, step: int) -> float | None:
        """Returns the PSNR in distribution."""
        if not self.log:
            return None
        params = jax.tree.map(lambda a: a.addressable_data(0), self.state.best_params)
        began = time.perf_counter()
        values, picture = self.validation.score(self.restore, params)
        self.log.scalars(step, "validation", values)
        self.log.image(step, "validation", picture)
        scores = ", ".join(
            f"{name.removeprefix('psnr ')} {value:.2f} dB"
            for name, value in values.items()
            if name.startswith("psnr")
        )
        seconds = time.perf_counter() - began
        self.say(f"step {step}, rgb8: {scores} ({clock(seconds)})")
        self._began += seconds  # not a part of the training speed
        return next(iter(values.values()))

    def _profile(self, count: int) -> None:
        if count == PROFILED.start:
            jax.profiler.start_trace(str(self.folder / "profile"))
        if count == PROFILED.stop:
            jax.block_until_ready(self.state)
            jax.profiler.stop_trace()
            self.say(f"profile of {len(PROFILED)} steps: {self.folder / 'profile'}")

    def _write_weights(self) -> None:
        params = jax.tree.map(
            lambda a: np.asarray(a.addressable_data(0)), self.state.best_params
        )
        config = to_config(self.recipe).to_dict()
        provenance = {
            "recipe": config,
            "step": int(self.state.step),
            "averaged": self.state.average is not None,
            "skipped": int(self.state.tally.skipped),
            "versions": {
                "python": platform.python_version(),
                "jax": jax.__version__,
                "flax": flax.__version__,
            },
        }
        path = self.folder / WEIGHTS
        weights.save_weights(path, params, config["model"], provenance)
        self.say(f"weights: {path}")


def _divides(every: int, step: int, last: int) -> bool:
    return step % every == 0 or step == last
