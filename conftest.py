"""Strict JAX for every test, and random parameters that cost no compilation."""

import functools
import gc
import math
import os
from collections.abc import Callable
from pathlib import Path

# Before JAX starts: what is wrong with two devices only is noticed here.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import hypothesis
import jax
import numpy as np
import pytest
from PIL import Image

from sevnet_jax.models import create_model
from sevnet_jax.weights import save_weights
from tests import compilation

TINY = {"width": 4, "blocks": (1,), "bottleneck": 1}
ROOT = Path(__file__).resolve().parent
MOST_MEMORY = 2e9  # bytes; what a module adds to it stays below half as much

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Fresh parameters compile in a tenth of the time.
jax.config.update("jax_default_prng_impl", "rbg")
# Test processes share what they compile, and a second run finds it.
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".pytest_cache" / "xla"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's root folder."""
    return ROOT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Tests with the mark `optimized`, and their fixtures, run what users run."""
    with compilation.optimized(item.get_closest_marker("optimized") is not None):
        return (yield)


@pytest.fixture(scope="module", autouse=True)
def _drop_programs():
    """What was compiled is dropped after a module, once it takes much memory."""
    yield
    if find_memory() > MOST_MEMORY:
        jax.clear_caches()
        gc.collect()


def find_memory() -> float:
    """The bytes that this process holds; without Linux's word on it, too many."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return math.inf
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="session")
def image_sets() -> Path:
    """The folder of public image sets that SEVNET_DATA names."""
    name = os.environ.get("SEVNET_DATA")
    if not name:
        pytest.skip("needs the public image sets; set SEVNET_DATA to their folder")
    path = Path(name)
    if not path.is_dir():
        pytest.skip(f"needs the public image sets; SEVNET_DATA={name} is no folder")
    return path


@pytest.fixture
def _standard_promotion():
    """Optax mixes types and ranks; our own models are strict."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def draw_params():
    """A function (module, x) -> variables, every leaf random: gains and biases too."""

    @functools.lru_cache(maxsize=256)
    def trace(module, image):
        return jax.eval_shape(lambda x: module.init(jax.random.key(0), x), image)

    def draw(module, x, seed=0):
        rng = np.random.default_rng(seed)
        shapes = trace(module, jax.ShapeDtypeStruct(x.shape, x.dtype))

        def fill(shape):
            fan_in = math.prod(shape.shape[:-1])
            values = rng.normal(size=shape.shape) / math.sqrt(fan_in)
            # jnp.asarray would compile for every shape.
            return jax.device_put(values.astype(shape.dtype))

        return jax.tree.map(fill, shapes)

    return draw


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory, draw_params) -> Path:
    """Random weights of a small network."""
    config = {"name": "sevnet_s", "width": 8, "blocks": [1], "bottleneck": 1}
    model = create_model(**config)
    params = draw_params(model, np.zeros((1, 8, 8, 3), np.float32))
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    save_weights(path, params, config, {"steps": 0})
    return path


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
        image = np.zeros((1, 8, 8, model.channels), np.float32)
        params = draw_params(model, image, seed)
        path = tmp_path / name / "weights.safetensors"
        provenance = {"recipe": {"noise": "gaussian:5-20"}, "step": 1}
        save_weights(path, params, {"name": "sevnet_s", **fields}, provenance)
        return path

    return write
