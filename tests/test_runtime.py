"""The compilation cache: found again, and never in the way of somebody's own."""

from pathlib import Path

import jax
import pytest

from sevnet_jax.runtime import use_compilation_cache


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
