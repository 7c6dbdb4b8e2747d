"""Watches a run: log lines, validation scores, checkpoints."""

import time
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax import Array
from jax.sharding import Sharding

from sevnet_jax import images, metrics
from sevnet_jax.data import noise, sources
from sevnet_jax.runtime import compiler_options
from sevnet_jax.training.checkpoint import Checkpoints
from sevnet_jax.training.logs import Log, clock
from sevnet_jax.training.objective import Objective
from sevnet_jax.training.recipe import Recipe, Watch
from sevnet_jax.training.step import TrainState, empty_tally

SHOWN = 3  # images in a grid


class Validation:
    """Clean images and their noisy versions, the same at every call."""

    def __init__(self, watch: Watch, seed: int, channels: int):
        source = sources.open_one(watch.source, watch.size, channels=channels)
        count = min(watch.images, len(source))
        chosen = [
            images.to_channels(source[i * len(source) // count], channels)
            for i in range(count)
        ]
        self._clean = np.stack([_centre(image, watch.size) for image in chosen])
        self._noisy = {
            name: np.stack(
                [
                    noise.sample_for_test(name, image, seed=(seed, index))
                    for index, image in enumerate(self._clean)
                ]
            )
            for name in watch.noises
        }

    def score(
        self, restore: Callable[[np.ndarray], Array]
    ) -> tuple[dict[str, float], np.ndarray]:
        """Returns mean PSNR and SSIM for each noise, and a picture to look at.

        The picture has a row for each noise: noisy, restored, clean, side by side.
        """
        values, rows = {}, []
        clean = [metrics.to_rgb8(image) for image in self._clean]
        references = [metrics.Reference(image) for image in clean]
        for name, noisy in self._noisy.items():
            # One image at a time: validation must not need more memory than training.
            floats = [np.asarray(restore(image[None]))[0] for image in noisy]
            restored = [metrics.to_rgb8(np.nan_to_num(image)) for image in floats]
            # A network may overflow on one noise and train well on another.
            scores = [
                metrics.measure(r, c) if np.isfinite(f).all() else None
                for f, r, c in zip(floats, restored, references, strict=True)
            ]
            for metric in metrics.METRICS:
                found = [s[metric] if s else np.nan for s in scores]
                values[f"{metric} {name}"] = float(np.mean(found))
            panels = [
                panel
                for i in range(min(SHOWN, len(clean)))
                for panel in (metrics.to_rgb8(noisy[i]), restored[i], clean[i])
            ]
            rows.append(np.concatenate(panels, axis=1))
        return values, np.concatenate(rows, axis=0)


def describe_scores(watch: Watch, seed: int) -> str:
    """Returns what a checkpoint's score is of: equal texts, comparable scores."""
    images = f"{watch.images} images of {watch.source}, side {watch.size}"
    return f"{watch.noises[0]}, seed {seed}, {images}"


def describe(values: Mapping[str, float]) -> str:
    """Returns the PSNR of each noise in a line."""
    scores = ", ".join(
        f"{name.removeprefix('psnr ')} {value:.2f} dB"
        for name, value in values.items()
        if name.startswith("psnr")
    )
    return f"{metrics.PROTOCOL}: {scores}"


def _centre(pixels: np.ndarray, side: int) -> np.ndarray:
    top, left = ((length - side) // 2 for length in pixels.shape[:2])
    return images.to_float(pixels[top : top + side, left : left + side])


class Monitor:
    """Writes lines and scores to the log and saves the state, each when it is due.

    Of several processes all have one, and the first alone has a log and a validation.
    """

    def __init__(
        self,
        recipe: Recipe,
        objective: Objective,
        checkpoints: Checkpoints,
        validation: Validation | None,
        log: Log | None,
        start: int,
        replicated: Sharding,
    ):
        self._recipe, self._checkpoints = recipe, checkpoints
        self._validation, self._log = validation, log
        self._replicated = replicated
        self._restore = jax.jit(
            objective.restore, compiler_options=compiler_options(forward=True)
        )
        self._saved = self._counted = start
        self._began = time.perf_counter()

    def start_clock(self) -> None:
        self._began = time.perf_counter()

    def say(self, text: str) -> None:
        if self._log:
            self._log.say(text)

    def is_due(self, step: int) -> bool:
        watch = self._recipe.watch
        every = (watch.log_every, watch.validate_every, watch.checkpoint_every)
        return any(self._divides(count, step) for count in every)

    def _divides(self, every: int, step: int) -> bool:
        return step % every == 0 or step == self._recipe.steps

    def pause(
        self, step: int, state: TrainState, frozen, report: dict, stop: bool
    ) -> TrainState:
        """Does what is due at a step; returns the state, its tally emptied if said."""
        watch, score = self._recipe.watch, None
        if self._divides(watch.log_every, step):
            state = self._write_line(step, state, float(report["learning_rate"]))
        validate = self._divides(watch.validate_every, step)
        if validate:
            score = self._validate(step, state, frozen)
        # Also after each validation: the best of them is to be kept.
        if stop or validate or self._divides(watch.checkpoint_every, step):
            self.save(step, state, score)
        return state

    def save(self, step: int, state: TrainState, score: float | None = None) -> None:
        if step > self._saved:
            self._checkpoints.save(step, state, score)
            self._saved = step

    def raise_if_failed(self) -> None:
        self._checkpoints.raise_if_failed()

    def wait(self) -> None:
        self._checkpoints.wait()

    def save_good(self, good_step: int, state: TrainState) -> None:
        """Saves a run that went astray after `good_step`, if there is something new.

        Who resumes has all tries again.
        """
        if good_step > self._saved:
            zero = jax.device_put(np.int32(0), self._replicated)
            tally = state.tally.replace(skipped_in_row=zero)
            self.save(int(state.step), state.replace(tally=tally))
        self._checkpoints.wait()

    def _write_line(self, step: int, state: TrainState, rate: float) -> TrainState:
        tally = jax.device_get(state.tally)
        now = time.perf_counter()
        speed = (step - self._counted) / max(now - self._began, 1e-9)
        self._began, self._counted = now, step
        values = {
            **tally.summarize(),
            "learning_rate": rate,
            "images_per_second": speed * self._recipe.data.batch_size,
        }
        if self._log:
            self._log.scalars(step, "train", values)
            left = (self._recipe.steps - step) / max(speed, 1e-9)
            self._log.progress(step, values, left)
        empty = empty_tally(tally.skipped, tally.skipped_in_row)
        return state.replace(tally=jax.device_put(empty, self._replicated))

    def _validate(self, step: int, state: TrainState, frozen) -> float | None:
        """Returns the PSNR in distribution."""
        if not self._log or not self._validation:
            return None
        params, frozen = jax.tree.map(
            lambda a: a.addressable_data(0), (state.kept_params, frozen)
        )
        began = time.perf_counter()
        values, picture = self._validation.score(
            lambda noisy: self._restore(params, frozen, noisy)
        )
        self._log.scalars(step, "validation", values)
        self._log.image(step, "validation", picture)
        seconds = time.perf_counter() - began
        self.say(f"step {step}, {describe(values)} ({clock(seconds)})")
        self._began += seconds  # not a part of the training speed
        score = next(iter(values.values()))
        return score if np.isfinite(score) else None
