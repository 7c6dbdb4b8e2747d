"""The weights of a run as one file, with where they come from."""

import importlib.metadata
import platform
from pathlib import Path

import jax
import numpy as np

from sevnet_jax.data import sources
from sevnet_jax.inference import weights
from sevnet_jax.training import parallel
from sevnet_jax.training.recipe import Recipe, to_config
from sevnet_jax.training.state import TrainState

PACKAGES = ("sevnet_jax", "jax", "flax", "optax")


def export_weights(path: Path, state: TrainState, recipe: Recipe) -> None:
    """Writes the averaged weights of a state; folders are named without their paths."""
    params = jax.tree.map(
        lambda array: np.asarray(array.addressable_data(0)), state.kept_params
    )
    config = to_config(recipe).to_dict()
    for key in ("source", "validation_source"):
        config[key] = sources.without_paths(config[key])
    provenance = {
        "recipe": config,
        "step": int(state.step),
        "averaged": state.average is not None,
        "skipped": int(state.tally.skipped),
        "devices": parallel.describe_devices(),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }
    weights.save_weights(path, params, config["model"], provenance)
