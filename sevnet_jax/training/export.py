"""The weights of a run: those it starts from, and the file it writes at the end."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from sevnet_jax import weights
from sevnet_jax.data import sources
from sevnet_jax.models.sevnet import SEVNet, to_one_channel
from sevnet_jax.runtime import list_versions
from sevnet_jax.training import parallel
from sevnet_jax.training.recipe import Recipe, to_config
from sevnet_jax.training.step import TrainState

PACKAGES = ("sevnet_jax", "jax", "flax", "optax")


def find_hashes(recipe: Recipe) -> dict[str, str]:
    """Returns the hashes of the weights that a recipe names.

    A run remembers them: a file that is replaced under the same name is noticed when
    the run resumes.
    """
    names = {"init_weights": recipe.init_weights, "denoiser": recipe.denoiser}
    return {k: weights.load_named(name).sha256 for k, name in names.items() if name}


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
    start: weights.Weights | None = None,
    denoiser: weights.Weights | None = None,
    config_file: Mapping[str, str] | None = None,
) -> None:
    """Writes the averaged weights of a state; folders are named without their paths.

    What the run started from is recorded with all of its own past; of the denoiser that
    a translator was trained for, which one it was; of the config file, its name and
    hash, as `config.remember` gives them.
    """
    params = jax.tree.map(
        lambda array: np.asarray(array.addressable_data(0)), state.kept_params
    )
    config = to_config(recipe).to_dict()
    for section in ("data", "watch"):
        config[section]["source"] = sources.without_paths(config[section]["source"])
    for key in ("init_weights", "denoiser"):
        config[key] = Path(config[key]).name
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
    if start is not None:
        provenance["start"] = {"sha256": start.sha256, **start.provenance}
    if denoiser is not None:
        provenance["denoiser_sha256"] = denoiser.sha256
    weights.save_weights(path, params, config["model"], provenance)
