"""A small denoiser with random weights."""

import pytest

from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_weights


@pytest.fixture(scope="session")
def denoiser(weights_file):
    return Denoiser(load_weights(weights_file))
