"""Trains networks in the same stages until they are close to a reference; scores them.

Finished runs are not repeated, and stopped trainings and scores resume. Weights that
are missing in the workdir are trained again if a run continues from them or is scored,
unless the study keeps a copy of them.
"""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

from sevnet_jax import weights
from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.data.sources import without_paths
from sevnet_jax.evaluation import methods, protocol, runs, scenes
from sevnet_jax.files import write_atomically
from sevnet_jax.runtime import compiler_options
from sevnet_jax.training import checkpoint, workdir
from sevnet_jax.training.logs import read_metrics
from sevnet_jax.training.loop import Diverged, train
from sevnet_jax.training.recipe import Recipe, from_mapping
from sevnet_jax.training.watch import Validation
from studies import results, selection
from studies.means import IN_DISTRIBUTION
from studies.results import name_run

HELD_OUT = 20  # images
Run = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Study:
    """Photos to train, choose and test by, two folders, and what a row's recipe is."""

    photos: str
    held_out: str
    test: Sequence[str]
    workdir: Path  # for weights
    out: Path  # for results
    make_config: Callable[[str], ConfigDict]  # of a row
    name_preset: Callable[[str], str]  # of a row, for its results
    stages: int | None = None  # at most; None: all
    levels: Sequence[float] = ()  # of Gaussian noise, for a curve
    curve_images: int = 12  # of the first set
    kept: Path | None = None  # where weights are copied to, small enough for git


def find_scenes(study: Study) -> list[scenes.Scene]:
    """Returns all images to score, under all noises of the paper."""
    return [s for test in study.test for s in scenes.from_folder(test, PAPER_COLUMNS)]


def train_and_score(
    study: Study, row: str, seed: int, wanted: float, stages: int | None = None
) -> list[Run]:
    """Returns the stages up to the best, which is scored; none if all diverged."""
    stages = stages or study.stages or len(results.STAGES)
    found = train_stages(study, row, seed, stages, wanted)
    best = selection.find_best(found)
    up_to_best = found[: found.index(best) + 1] if best else []
    if up_to_best:
        score(study, up_to_best)
    jax.clear_caches()  # programs of a network are of no use to the next, and large
    return up_to_best


def train_controls(study: Study, ours: str, steps: int) -> None:
    """Trains the reference for at least so many steps, and scores each stage."""
    found = train_stages(study, ours, 0, selection.count_stages(steps))
    for number in range(len(found)):
        score(study, found[: number + 1])


def train_stages(
    study: Study, row: str, seed: int, stages: int, wanted: float | None = None
) -> list[Run]:
    """Trains a row until it is close to `wanted` on held-out photos."""
    found: list[Run] = []
    for _ in range(stages):
        found.append(train_stage(study, row, seed, found))
        if results.is_close(found[-1]["held_out"], wanted):
            break
    return found


def train_stage(study: Study, row: str, seed: int, earlier: Sequence[Run]) -> Run:
    """Trains the stage after some others; returns what is known of it."""
    stage = results.STAGES[len(earlier)]
    last = selection.find_last(earlier)
    run: Run = {
        "row": row,
        "seed": seed,
        "stage": len(earlier),
        "learning_rate": stage.learning_rate,
        "steps": stage.steps + (last["steps"] if last else 0),
        "preset": study.name_preset(row),
        **name_photos(study),
    }
    done = find_done(study, run)
    if done:
        keep(study, done)
        return done
    start = find_weights(study, earlier)
    try:
        run["held_out"] = train_weights(study, run, start)
    except Diverged as error:
        print(error, file=sys.stderr)
        run |= {"held_out": None, "diverged_after": error.step}
    run["means"] = {}
    results.write_run(study.out, run)
    return run


def name_photos(study: Study) -> Run:
    """Returns what the results of trained networks say of their photos."""
    return {
        "photos": without_paths(study.photos),
        "chosen_by": without_paths(study.held_out),
    }


def find_done(study: Study, run: Run) -> Run | None:
    """Returns what an earlier process wrote of a run; refuses one of other settings."""
    path = study.out / f"{name_run(run)}.json"
    if not path.exists():
        return None
    done = json.loads(path.read_text())
    unsaid = [key for key in run if key not in done]
    if unsaid:
        raise ValueError(
            f"{path} is of an earlier version and does not say {', '.join(unsaid)}; "
            "add that, or move it away"
        )
    others = [key for key in run if done[key] != run[key]]
    if others:
        raise ValueError(
            f"{path} belongs to a run with other settings ({', '.join(others)}); move "
            "it away"
        )
    return done


def find_weights(study: Study, stages: Sequence[Run]) -> Path | None:
    """Returns the folder of the last weights, trained again if they are gone."""
    last = selection.find_last(stages)
    if last is None:
        return None
    folder = study.workdir / name_run(last)
    if not has_weights(folder) and not bring_back(study, last):
        start = find_weights(study, stages[: stages.index(last)])
        if not workdir.has_checkpoint(folder):
            # Its result says that it had ended: anew, what is refused otherwise.
            (folder / checkpoint.SAVED).unlink(missing_ok=True)
        last["held_out"] = train_weights(study, last, start)
        scored = find_scored(last)
        if scored and scored != weights.load_weights(folder / weights.FILE).sha256:
            # Another computer rounds otherwise: score it again.
            last["means"] = {}
            for key in ("provenance", "curve"):
                last.pop(key, None)
        results.write_run(study.out, last)
    return folder


def has_weights(folder: Path) -> bool:
    return (folder / weights.FILE).exists()


def bring_back(study: Study, run: Run) -> bool:
    """Returns whether the weights of a run were kept; they are then in its folder."""
    kept = _name_kept(study, run)
    if kept is None or not kept.exists():
        return False
    if find_scored(run) not in (None, weights.load_weights(kept).sha256):
        raise ValueError(f"{kept} has other weights than its result file; move it away")
    _copy(kept, study.workdir / name_run(run) / weights.FILE)
    return True


def keep(study: Study, run: Run, anew: bool = False) -> None:
    """Copies the weights of a finished run to where the study keeps them."""
    folder, kept = study.workdir / name_run(run), _name_kept(study, run)
    if kept and (anew or not kept.exists()) and has_weights(folder):
        _copy(folder / weights.FILE, kept)


def find_scored(run: Run) -> str | None:
    """The hash of the weights that a run's scores are of, if it has any."""
    network = run.get("provenance", {}).get("network", {})
    return network.get("weights_sha256")


def _name_kept(study: Study, run: Run) -> Path | None:
    return study.kept / f"{name_run(run)}.safetensors" if study.kept else None


def _copy(path: Path, to: Path) -> None:
    write_atomically(to, lambda temporary: shutil.copyfile(path, temporary))


def train_weights(study: Study, run: Run, start: Path | None) -> float | None:
    """Trains a run from given weights; returns its score on held-out photos."""
    recipe = make_recipe(study, run["row"], run["seed"], run["stage"], start)
    folder = study.workdir / name_run(run)
    print(f"--- {folder.name}", file=sys.stderr)
    state = train(recipe, folder, terminal=sys.stderr.isatty())
    if int(state.step) < recipe.steps:
        sys.exit("stopped; rerun the same command to resume")
    keep(study, run, anew=True)
    return read_held_out(folder, recipe)


def make_recipe(
    study: Study, row: str, seed: int, number: int, start: Path | None
) -> Recipe:
    """Returns the recipe of a stage of a row."""
    stage = results.STAGES[number]
    config = study.make_config(row)
    config.update(
        {
            "seed": seed + 10 * number,  # or a stage would see what the last one saw
            "init_weights": str(start or ""),
            "steps": stage.steps,
            "data": {"source": study.photos, "downscale_probability": 0.2},
            "optimizer": {"learning_rate": stage.learning_rate},
            "watch": {
                "source": study.held_out,
                "images": HELD_OUT,
                "size": 256,
                "noises": (IN_DISTRIBUTION,),
            },
        }
    )
    return from_mapping(config)


def read_held_out(folder: Path, recipe: Recipe) -> float | None:
    """Returns the score after the last step, None if it is not finite."""
    (last,) = [
        record[f"psnr {IN_DISTRIBUTION}"]
        for record in read_metrics(folder)
        if record["kind"] == "validation" and record["step"] == recipe.steps
    ]
    return last


def validate(name: str, recipe: Recipe) -> dict[str, float]:
    """Returns what weights score in the validation of a recipe, by metric and noise."""
    found = weights.load_named(name)
    restore = jax.jit(
        found.model.apply, compiler_options=compiler_options(forward=True)
    )
    validation = Validation(recipe.watch, recipe.seed, found.model.channels)
    values, _ = validation.score(lambda noisy: restore(found.params, noisy))
    return values


def score(study: Study, stages: Sequence[Run]) -> None:
    """Scores the last of some stages, if not done yet."""
    run = stages[-1]
    if run["held_out"] is None or is_scored(study, run):
        return
    folder = find_weights(study, stages)
    (network,) = methods.open_methods([str(folder)])
    score_method(study, run, network, folder)


def is_scored(study: Study, run: Run) -> bool:
    """Whether a run has all scores that the study wants; it may have more."""
    sizes = {scene.data: scene.set_size for scene in find_scenes(study)}
    if not sizes.items() <= results.find_sets({"": run}).items():
        return False
    wanted = {"data": next(iter(sizes)), "levels": [*study.levels]}
    return not study.levels or wanted.items() <= run.get("curve", {}).items()


def score_method(study: Study, run: Run, method: methods.Method, folder: Path) -> None:
    """Writes a run with its scores: all sets, all noises, and the curve."""
    scored = _score(find_scenes(study), method, folder / "scores")
    means: Run = dict(run.get("means", {}))
    for scene in find_scenes(study):
        means[scene.data] = {}
    for (data, _, noise), mean in protocol.summarize(scored.scores).items():
        means[data][noise] = mean
    provenance = dict(scored.provenance)
    provenance["network"] = provenance.pop("methods")[method.name]
    found = {**run, "means": means, "provenance": provenance}
    finished = [scored]
    if study.levels:
        noises = [f"gaussian:{level:g}" for level in study.levels]
        photos = scenes.from_folder(study.test[0], noises, limit=study.curve_images)
        curve = _score(photos, method, folder / "curve")
        finished.append(curve)
        by_noise = [*protocol.summarize(curve.scores).values()]
        found["curve"] = {
            "data": photos[0].data,
            "images": protocol.count_images(len(photos), photos[0].set_size),
            "levels": [*study.levels],
            "psnr": [mean["psnr"] for mean in by_noise],
        }
    results.write_run(study.out, found)
    for result in finished:
        result.progress.finish()


def _score(
    found: Sequence[scenes.Scene], method: methods.Method, folder: Path
) -> runs.Run:
    result = runs.run(found, [method], folder, seed=0)
    if result.skipped:
        raise ValueError("some images could not be scored")
    return result
