"""Trainings mix types, as Optax does; photos for studies, trainings that cost none."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from sevnet_jax.models import create_model
from sevnet_jax.weights import save_weights


@pytest.fixture(autouse=True)
def _training_promotion(_standard_promotion):
    """For every test of a study."""


@pytest.fixture
def argv(rng, tmp_path):
    """Folders of photos, and what a study's script is to make of them."""
    for name, side in (("photos", 64), ("held", 256), ("set", 16)):
        (tmp_path / name).mkdir()
        pixels = rng.integers(0, 256, (side, side, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / name / "a.png")
    options = {"photos": "photos", "held_out": "held", "test": "set",
               "workdir": "runs", "out": "out"}  # fmt: skip
    return [f"--{key}={tmp_path / value}" for key, value in options.items()]


@pytest.fixture
def asked(monkeypatch, draw_params):
    """What recipes were asked for: (run, seed, learning rate, start); none is trained.

    Training is tested elsewhere. Weights of a tiny network are left.
    """
    # Here and not above: pytest reads this file before it starts its workers, which
    # would wait for TensorFlow.
    from studies import trainings

    found = []
    config = {"name": "sevnet_s", "width": 4, "blocks": [1], "bottleneck": 0}
    model = create_model(**config)
    params = draw_params(model, jnp.zeros((1, 8, 8, 3)))

    def train(recipe, folder, terminal):
        start = recipe.init_weights.rpartition("/")[2]
        found.append((folder.name, recipe.seed, recipe.optimizer.learning_rate, start))
        save_weights(folder / "weights.safetensors", params, config, {})
        return types.SimpleNamespace(step=recipe.steps)

    monkeypatch.setattr(trainings, "train", train)
    monkeypatch.setattr(jax, "clear_caches", lambda: None)  # of the one tiny network
    return found
