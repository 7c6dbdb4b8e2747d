"""The compilation cache, and the options that programs are compiled with."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from sevnet_jax import create_model
from sevnet_jax.config import recall
from sevnet_jax.runtime import compiler_options, use_compilation_cache


@pytest.fixture(autouse=True)
def restore_settings():
    name = "jax_compilation_cache_dir"
    folder = getattr(jax.config, name)
    yield
    jax.config.update(name, folder)


def test_the_cache_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jax.config.update("jax_compilation_cache_dir", None)
    assert use_compilation_cache() == tmp_path / "sevnet_jax" / "xla"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "sevnet_jax" / "xla")


def test_a_cache_that_is_set_already_stays():
    jax.config.update("jax_compilation_cache_dir", "mine")
    assert use_compilation_cache() == Path("mine")


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="an option for CPUs")
@pytest.mark.optimized
def test_forward_passes_need_less_memory_in_an_order_of_their_own():
    model = create_model("sevnet_xs")
    image = jnp.zeros((1, 128, 128, 3))
    params = jax.eval_shape(model.init, jax.random.key(0), image)
    needed = {
        forward: jax.jit(
            model.apply, compiler_options=compiler_options(forward=forward)
        )
        .lower(params, image)
        .compile()
        .memory_analysis()
        .temp_size_in_bytes
        for forward in (False, True)
    }
    assert needed[True] < 0.9 * needed[False], needed


def test_without_a_home_nothing_is_kept(monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", fail)
    jax.config.update("jax_compilation_cache_dir", None)
    assert use_compilation_cache() is None
    assert not recall({"sha256": "0", "file": "a.py"})


def test_options_for_a_cpu_are_not_for_other_devices():
    assert compiler_options("cpu", forward=True)
    assert compiler_options("gpu", forward=True) == {}
