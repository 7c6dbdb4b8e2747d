"""A small denoiser with random weights."""

import pytest

from sevnet_jax import create_model
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.inference.weights import load_weights, save_weights

MODEL = {"name": "sevnet_s", "width": 8, "blocks": [1], "bottleneck": 1}


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory, draw_params):
    import numpy as np

    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    model = create_model(**MODEL)
    params = draw_params(model, np.zeros((1, 8, 8, 3), np.float32))
    save_weights(path, params, MODEL, {"steps": 0})
    return path


@pytest.fixture(scope="session")
def denoiser(weights_file):
    return Denoiser(load_weights(weights_file))
