"""Runs of train.py, in this process or in others."""

import contextlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from sevnet_jax.training import command

# One block, and a rate that no length of the run is in: most runs are one program,
# which is compiled once and then found in the cache.
TINY = (
    "--config.model.width=4",
    "--config.model.blocks=()",
    "--config.optimizer.schedule=constant",
    "--config.data.batch_size=8",
    "--config.data.patch_size=16",
    "--config.watch.size=16",
    "--config.watch.images=1",
)


@pytest.fixture(autouse=True)
def _training_promotion(_standard_promotion):
    """For every test of training."""


@pytest.fixture(scope="session")
def small_photos(tmp_path_factory) -> Path:
    """A folder with four images that have edges, textures and slopes."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for index in range(4):
        coarse = rng.integers(0, 256, (6, 6, 3), np.uint8)
        Image.fromarray(coarse).resize((48, 48)).save(folder / f"{index}.png")
    return folder


@pytest.fixture(scope="session")
def list_flags(small_photos) -> Callable[..., list[str]]:
    """A function (workdir, *flags) -> the arguments of a training on few pixels."""

    def build(workdir: Path, *flags: str) -> list[str]:
        return [
            *("--config", "configs/smoke.py", "--workdir", str(workdir)),
            f"--config.data.source={small_photos}",
            f"--config.watch.source={small_photos}",
            *(*TINY, *flags),
        ]

    return build


@pytest.fixture(scope="session")
def start_training(project, list_flags) -> Callable[..., subprocess.Popen]:
    """A function (workdir, *flags, devices=1) that starts train.py in a process."""

    def start(workdir: Path, *flags: str, devices=1, program=("train.py",), wrapper=()):
        environment = {
            **os.environ,
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(project / ".pytest_cache" / "xla"),
            "PYTHONPATH": str(project),
            # What train.py would set and start anew for, which costs its imports twice.
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        }
        environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # JAX has set it for this process
        return subprocess.Popen(
            [*wrapper, sys.executable, *program, *list_flags(workdir, *flags)],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def run_elsewhere(start_training) -> Callable[..., tuple[int, str]]:
    """As `start_training`, but waits; returns the exit code and what was printed."""

    def run(*args, **kwargs) -> tuple[int, str]:
        process = start_training(*args, **kwargs)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    return run


@pytest.fixture(scope="session")
def run_training(project, list_flags) -> Callable[..., tuple[int, str]]:
    """A function (workdir, *flags) that trains in this process, as train.py would."""

    def run(workdir: Path, *flags: str) -> tuple[int, str]:
        printed = io.StringIO()
        handlers, level = logging.root.handlers[:], logging.root.level
        try:
            with (
                contextlib.chdir(project),
                contextlib.redirect_stderr(printed),
                contextlib.redirect_stdout(printed),
                # For fixtures too, which a test's own setting is too late for.
                jax.numpy_dtype_promotion("standard"),
                jax.numpy_rank_promotion("allow"),
            ):
                code = command.main(list_flags(workdir, *flags))
        finally:
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
        return code, printed.getvalue()

    return run
