"""Runs of train.py in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

TINY = (
    "--config.model.width=4",
    "--config.model.blocks=(1,)",
    "--config.batch_size=8",
    "--config.patch_size=16",
    "--config.validation_size=16",
    "--config.validation_images=1",
)


@pytest.fixture(autouse=True)
def _standard_promotion():
    """Optax mixes types; our own models are strict, see tests/models."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="session")
def start_training(project, tmp_path_factory) -> Callable[..., subprocess.Popen]:
    """A function (workdir, *flags, devices=1) that starts train.py on few pixels."""
    photos = _draw_photos(tmp_path_factory.mktemp("photos"))

    def start(workdir: Path, *flags: str, devices=1, program=("train.py",), wrapper=()):
        environment = {
            **os.environ,
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(project / ".pytest_cache" / "xla"),
            "PYTHONPATH": str(project),
        }
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # JAX has set it for this process
        command = [
            *(*wrapper, sys.executable, *program),
            *("--config", "configs/smoke.py", "--workdir", str(workdir)),
            *(f"--config.source={photos}", f"--config.validation_source={photos}"),
            *(*TINY, *flags),
        ]
        return subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def run_training(start_training) -> Callable[..., tuple[int, str]]:
    """As `start_training`, but waits; returns the exit code and what was printed."""

    def run(*args, **kwargs) -> tuple[int, str]:
        process = start_training(*args, **kwargs)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    return run


def _draw_photos(folder: Path) -> Path:
    """Writes images that are quick to make and have edges, textures and slopes."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    for index in range(4):
        coarse = rng.integers(0, 256, (6, 6, 3), np.uint8)
        Image.fromarray(coarse).resize((48, 48)).save(folder / f"{index}.png")
    return folder
