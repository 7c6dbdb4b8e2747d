"""The weights of a run: those it starts from, and the file it writes at the end."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sevnet_jax import weights
from sevnet_jax.data import sources
from sevnet_jax.models.sevnet import SEVNet, to_one_channel
from sevnet_jax.runtime import list_versions
from sevnet_jax.training import parallel
from sevnet_jax.training.recipe import Recipe, to_config
from sevnet_jax.training.step import TrainState
from sevnet_jax.training.workdir import Start

PACKAGES = ("sevnet_jax", "jax", "flax", "optax")
_WEIGHTS = ("init_weights", "denoiser")  # keys of the recipe


def find_hashes(recipe: Recipe, begun: Start | None = None) -> dict[str, str]:
    """Returns the hashes of the weights that a recipe names.

    A run remembers them: a denoiser that is replaced under the same name is noticed
    when the run resumes. `begun` is what a run that has a checkpoint began from; that
    file may be another by now.
    """
    hashes = {"init_weights": begun["sha256"]} if begun else {}
    for key in _WEIGHTS:
        name = getattr(recipe, key)
        if name and key not in hashes:
            try:
                hashes[key] = weights.load_named(name).sha256
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
    return hashes


def load_start(recipe: Recipe) -> weights.Weights | None:
    """Returns what `init_weights` names, if anything; it must fit the model.

    A SEVNet of one channel may start from one of several.
    """
    if not recipe.init_weights:
        return None
    found, model = weights.load_named(recipe.init_weights), recipe.build_model()
    channels = found.model.channels
    pair = isinstance(found.model, SEVNet) and isinstance(model, SEVNet)
    if pair and model.channels == 1 < channels:
        grey = to_one_channel(found.params, channels)
        found = dataclasses.replace(found, params=grey)
    weights.check_fit(recipe.init_weights, found.params, model)
    return found


def is_exported(path: Path, step: int) -> bool:
    """Whether the weights after that step are in the file already."""
    try:
        return weights.load_weights(path).provenance.get("step") == step
    except ValueError:  # there are none, or they are damaged
        return False


def export_weights(
    path: Path,
    state: TrainState,
    recipe: Recipe,
    begun: Start | None = None,
    denoiser: weights.Weights | None = None,
    config_file: Mapping[str, str] | None = None,
    history: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Writes the averaged weights of a state; folders are named without their paths.

    What the run started from is recorded with all of its own past; of the denoiser that
    a translator was trained for, which one it was; of the config file, its name and
    hash, as `config.remember` gives them; of settings that were changed during the run,
    after which step and from what, as `workdir.save_config` gives them.
    """
    params = jax.tree.map(
        lambda array: np.asarray(array.addressable_data(0)), state.kept_params
    )
    config = to_config(recipe).to_dict()
    for section in ("data", "watch"):
        config[section]["source"] = _without_paths("source", config[section]["source"])
    for key in _WEIGHTS:
        config[key] = _without_paths(key, config[key])
    provenance = {
        "recipe": config,
        "step": int(state.step),
        "averaged": state.average is not None,
        "skipped": int(state.tally.skipped),
        "devices": parallel.describe_devices(),
        "versions": list_versions(*PACKAGES),
    }
    if config_file:
        provenance["config"] = dict(config_file)
    if history:
        provenance["history"] = [
            {
                **entry,
                "before": {
                    key: _without_paths(key.rpartition(".")[2], value)
                    for key, value in entry["before"].items()
                },
            }
            for entry in history
        ]
    if begun is not None:
        provenance["start"] = dict(begun)
    if denoiser is not None:
        provenance["denoiser_sha256"] = denoiser.sha256
    weights.save_weights(path, params, config["model"], provenance)


def _without_paths(key: str, value: Any) -> Any:
    """The value of a key of the recipe, without the folders that lead to it."""
    if value and key == "source":
        return sources.without_paths(value)
    return Path(value).name if value and key in _WEIGHTS else value
