"""The loop: data, steps, validation, checkpoints, and the end of a run."""

import contextlib
import dataclasses
import time
from pathlib import Path

import jax
import numpy as np

from sevnet_jax.data import pipeline
from sevnet_jax.inference import weights
from sevnet_jax.runtime import compiler_options
from sevnet_jax.training import parallel
from sevnet_jax.training.checkpoint import Checkpoints
from sevnet_jax.training.export import export_weights, load_start, pin_weights
from sevnet_jax.training.logs import Log, clock
from sevnet_jax.training.objective import make_objective
from sevnet_jax.training.profiler import Profiler
from sevnet_jax.training.recipe import Recipe
from sevnet_jax.training.signals import catch_signals
from sevnet_jax.training.state import TrainState, create_state, empty_tally
from sevnet_jax.training.step import make_step
from sevnet_jax.training.validation import Validation, describe
from sevnet_jax.training.workdir import claim, save_config

ASK_EVERY = 10  # steps between the hosts' agreements on whether to stop


class Diverged(Exception):
    """Too many steps in a row, up to `step`, had no finite gradient."""

    def __init__(self, message: str, step: int):
        super().__init__(message)
        self.step = step


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
    recipe = parallel.on_all(lambda: pin_weights(resolve_epochs(recipe)))
    mesh = parallel.make_mesh(recipe.batch_size, recipe.accumulation)
    with contextlib.ExitStack() as stack:

        def prepare() -> Validation:
            validation = Validation(recipe)  # first: a bad source leaves no trace
            stack.enter_context(claim(folder, recipe, accept_changes))
            return validation

        stopped = stack.enter_context(catch_signals())
        validation = parallel.on_first(prepare)
        run = _Run(recipe, folder, mesh, validation, terminal, stack)
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
        stack: contextlib.ExitStack,
    ):
        self.recipe, self.folder, self.mesh = recipe, folder, mesh
        self.validation = validation
        self.objective = parallel.on_all(lambda: make_objective(recipe))
        whole = parallel.replicated(mesh)
        self.given = parallel.on_all(lambda: load_start(recipe))
        create = jax.jit(
            lambda params: create_state(self.objective.model, recipe, params),
            out_shardings=whole,
        )
        self.checkpoints = Checkpoints(
            folder / "checkpoints", recipe.keep_last, recipe.keep_every
        )
        stack.callback(self.checkpoints.close)
        self.frozen = jax.device_put(self.objective.frozen, whole)
        state = create(self.given.params if self.given else None)
        self.state = self.checkpoints.restore(state) or state
        self.start = self._saved = int(self.state.step)
        self.log = None
        parallel.on_first(lambda: save_config(folder, recipe))
        if parallel.is_first():
            self.restore = jax.jit(
                self.objective.restore, compiler_options=compiler_options()
            )
            self.log = Log(folder, self.start, recipe.steps, terminal)
            stack.callback(self.log.close)

    def say(self, text: str) -> None:
        if self.log:
            self.log.say(text)

    def go(self, stopped, profile: bool) -> TrainState:
        recipe = self.recipe
        self.say(f"training on {parallel.describe_devices()}")
        if self.start:
            self.say(f"resumed at step {self.start} of {recipe.steps}")
        if self.start < recipe.steps:
            self._train(stopped, profile)
        self.checkpoints.wait()
        if int(self.state.step) >= recipe.steps:
            path = self.folder / weights.FILE
            parallel.on_first(
                lambda: export_weights(
                    path, self.state, recipe, self.given, self.objective.denoiser
                )
            )
            self.say(f"weights: {path}")
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
        step_fn = step_fn.lower(self.state, batch, self.frozen).compile()
        self.say(f"compiled the step in {time.perf_counter() - began:.1f} s")
        self._began, self._counted = time.perf_counter(), self.start
        report = None
        last = recipe.steps
        profiler = None
        if profile and parallel.is_first():
            profiler = Profiler(self.folder / "profile", self.start, last)
        for step in range(self.start + 1, last + 1):
            if profiler:
                profiler.before(step, self.state, self.say)
            # Python looks at a step while the devices are busy with the next one.
            previous = report
            self.state, report = step_fn(self.state, batch, self.frozen)
            if previous is not None:
                self._look(step - 1, previous)
            pause = any(
                _divides(every, step, last)
                for every in (
                    recipe.log_every,
                    recipe.validation_every,
                    recipe.checkpoint_every,
                )
            )
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
            if step < last:
                batch = self._next(batches)

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
            self._save_good_state(step - int(in_row))
            raise Diverged(
                f"no finite gradient for {int(in_row)} steps up to step {step}; the "
                f"last good state is kept in {self.folder / 'checkpoints'}",
                step,
            )
        self.checkpoints.raise_if_failed()

    def _save_good_state(self, good_step: int) -> None:
        """Saves, if there is something new; who resumes has all tries again."""
        if good_step > self._saved:
            tally = self.state.tally
            zero = jax.device_put(np.int32(0), parallel.replicated(self.mesh))
            tally = tally.replace(skipped_in_row=zero)
            self.state = self.state.replace(tally=tally)
            self._save(int(self.state.step))
        self.checkpoints.wait()

    def _save(self, step: int, score: float | None = None) -> None:
        if step > self._saved:
            self.checkpoints.save(step, self.state, score)
            self._saved = step

    def _next(self, batches) -> dict:
        try:
            return next(batches)
        except OSError:
            self._save(int(self.state.step))
            self.checkpoints.wait()
            raise

    def _pause(self, step: int, stop: bool) -> None:
        recipe = self.recipe
        if _divides(recipe.log_every, step, recipe.steps):
            self._write_line(step)
        score = None
        validate = _divides(recipe.validation_every, step, recipe.steps)
        if validate:
            score = self._validate(step)
        # Also after each validation: the best of them is to be kept.
        if stop or validate or _divides(recipe.checkpoint_every, step, recipe.steps):
            self._save(step, score)

    def _write_line(self, step: int) -> None:
        tally = jax.device_get(self.state.tally)
        now = time.perf_counter()
        speed = (step - self._counted) / max(now - self._began, 1e-9)
        self._began, self._counted = now, step
        values = {
            **tally.summarize(),
            "learning_rate": float(self._last["learning_rate"]),
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
        params, frozen = jax.tree.map(
            lambda a: a.addressable_data(0), (self.state.kept_params, self.frozen)
        )
        began = time.perf_counter()
        values, picture = self.validation.score(
            lambda noisy: self.restore(params, frozen, noisy)
        )
        self.log.scalars(step, "validation", values)
        self.log.image(step, "validation", picture)
        seconds = time.perf_counter() - began
        self.say(f"step {step}, {describe(values)} ({clock(seconds)})")
        self._began += seconds  # not a part of the training speed
        score = next(iter(values.values()))
        return score if np.isfinite(score) else None


def _divides(every: int, step: int, last: int) -> bool:
    return step % every == 0 or step == last
