"""A small denoiser with random weights, and programs that are made of such."""

import numpy as np
import pytest
from PIL import Image

from sevnet_jax import create_model
from sevnet_jax.inference import command, export
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_weights, save_weights


@pytest.fixture(scope="session")
def denoiser(weights_file):
    return Denoiser(load_weights(weights_file))


@pytest.fixture
def photo(rng, tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(rng.integers(0, 256, (9, 13, 3), np.uint8)).save(path)
    return path


@pytest.fixture
def run(weights_file, capsys):
    def run(*args):
        code = command.main([*map(str, args), "--weights", str(weights_file)])
        return code, capsys.readouterr().err

    return run


@pytest.fixture
def write_pair(write_weights, draw_params, tmp_path):
    """A function that writes a translator and its denoiser; returns both files."""

    def write():
        denoiser = write_weights("denoiser", blocks=())
        config = {"name": "translator_s", "width": 4, "blocks": [], "bottleneck": 1}
        image = np.zeros((1, 8, 8, 3), np.float32)
        params = draw_params(create_model(**config), image, seed=1)
        provenance = {"denoiser_sha256": load_weights(denoiser).sha256}
        save_weights(tmp_path / "t.safetensors", params, config, provenance)
        return tmp_path / "t.safetensors", denoiser

    return write


@pytest.fixture
def write_program(tmp_path, capsys):
    """A function that runs the command and returns the file it wrote."""

    def write(to, weights, *args):
        path = tmp_path / "programs" / f"program.{to}"
        argv = ["--to", to, "--weights", str(weights), "-o", str(path), *args]
        assert export.main(argv) == 0
        assert "multiples of" in capsys.readouterr().out
        return path

    return write
