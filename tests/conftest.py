"""Strict JAX for every test, and random parameters that cost no compilation."""

import math
import os
from pathlib import Path

import hypothesis
import jax
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent

jax.config.update("jax_numpy_dtype_promotion", "strict")
# Test processes share what they compile, and a second run finds it.
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".pytest_cache" / "xla"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def image_sets(project) -> Path:
    """The folder of public image sets, named by SEVNET_DATA or found nearby."""
    path = Path(os.environ.get("SEVNET_DATA", project.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"needs image sets; {path} is not there, set SEVNET_DATA")
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def draw_params():
    """A function (module, x) -> variables, every leaf random: gains and biases too."""

    def draw(module, x, seed=0):
        rng = np.random.default_rng(seed)
        shapes = jax.eval_shape(module.init, jax.random.key(0), x)

        def fill(shape):
            fan_in = math.prod(shape.shape[:-1])
            values = rng.normal(size=shape.shape) / math.sqrt(fan_in)
            return jax.numpy.asarray(values, shape.dtype)

        return jax.tree.map(fill, shapes)

    return draw
