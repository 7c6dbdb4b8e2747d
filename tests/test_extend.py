"""docs/extend.md: its files are short, and train as they are."""

import os
import re
import subprocess
import sys

import pytest
from safetensors import safe_open

from sevnet_jax.data import sources

NAMES = ["my_block", "my_noise", "my_source", "my_loss"]


@pytest.fixture(scope="module")
def files(project):
    text = (project / "docs" / "extend.md").read_text()
    found = re.findall(r"```python\n(# (\w+)\.py\n.*?)```", text, re.DOTALL)
    return {name: code for code, name in found}


def test_the_page_has_all_four(files):
    assert list(files) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_the_page_trains(project, files, name, tmp_path):
    code = files[name]
    assert len(code.splitlines()) <= 30
    (tmp_path / f"{name}.py").write_text(code)
    workdir = tmp_path / "run"
    result = subprocess.run(
        [
            *(sys.executable, "train.py", "--config", tmp_path / f"{name}.py"),
            *("--workdir", workdir, "--config.steps=2", "--config.model.width=4"),
            *("--config.model.blocks=(1,)", "--config.patch_size=16"),
            *("--config.validation_images=1", "--config.validation_size=16"),
        ],
        cwd=project,
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "JAX_COMPILATION_CACHE_DIR": str(project / ".pytest_cache" / "xla"),
        },
    )
    assert result.returncode == 0, result.stderr
    with safe_open(workdir / "weights.safetensors", "numpy") as weights:
        assert weights.metadata()["format"]


def test_the_block_of_the_page_keeps_the_law(project, files, tmp_path):
    (tmp_path / "my_block.py").write_text(files["my_block"])
    result = subprocess.run(
        [
            *(sys.executable, "eval.py", "equivariance", "--out", tmp_path / "a.png"),
            *("--config", tmp_path / "my_block.py"),
        ],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_source_that_cannot_load_is_noticed_at_once():
    """Not image by image, as files that cannot be read."""

    class Forgetful(sources.Source):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Forgetful("forgetful", 3, 8, sources.Cache())
