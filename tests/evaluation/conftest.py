"""Small sets of images, and weights of small networks."""

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from sevnet_jax.inference.weights import save_weights
from sevnet_jax.models import create_model

TINY = {"width": 4, "blocks": (1,), "bottleneck": 1}


@pytest.fixture
def photos(rng, tmp_path) -> Path:
    """A folder with a.png and b.png, noise of 16x20 pixels."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "ab":
        pixels = rng.integers(0, 256, (16, 20, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


@pytest.fixture
def write_weights(draw_params, tmp_path) -> Callable[..., Path]:
    """A function (name, **fields) that writes random weights of a small network."""

    def write(name: str, seed: int = 0, **fields) -> Path:
        fields = {**TINY, **fields}
        model = create_model("sevnet_s", **fields)
        params = draw_params(model, jnp.zeros((1, 8, 8, 3)), seed)
        path = tmp_path / name / "weights.safetensors"
        provenance = {"recipe": {"noise": "gaussian:5-20"}, "step": 1}
        save_weights(path, params, {"name": "sevnet_s", **fields}, provenance)
        return path

    return write
