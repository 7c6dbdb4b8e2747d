"""The wheel and the sdist: what somebody gets who installs the project, anywhere."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sevnet_jax

pytestmark = pytest.mark.slow
SECONDS = 1800  # to install TensorFlow on a slow line
CONFIG = """
from sevnet_jax.training.recipe import make_config

def get_config():
    small = {"width": 4, "blocks": (), "bottleneck": 1}
    return make_config(
        "sevnet_s",
        small,
        steps=2,
        data={"batch_size": 2, "patch_size": 16},
        watch={"images": 1, "size": 16},
    )
"""


def run(*command, folder: Path, environment: dict | None = None):
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        timeout=SECONDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def built(project, tmp_path_factory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--outdir", folder, folder=project)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="module")
def installed(project, built, tmp_path_factory):
    """A function (*command) that runs in an environment with the wheel alone.

    `installed.add(EXTRAS)` installs extras, with the versions of this project.
    """
    root = tmp_path_factory.mktemp("installed")
    python = root / "venv" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    newest = sys.version_info >= (3, 12)
    versions = project / ("constraints-newest.txt" if newest else "constraints.txt")
    hidden = ("PYTHON", "JAX", "XLA", "TF_", "GLIBC")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    environment["XDG_CACHE_HOME"] = str(root / "cache")

    def call(name: str, *arguments):
        """Runs a command of the environment in a folder of somebody's."""
        command = python.parent / name
        return run(command, *arguments, folder=call.folder, environment=environment)

    def add(extras: str = "") -> None:
        pip = ("-m", "pip", "install", "--quiet", "-c", versions, f"{wheel}{extras}")
        done = call("python", *pip)
        assert done.returncode == 0, done.stdout

    call.folder, call.add = root / "somewhere", add
    call.folder.mkdir()
    done = run(sys.executable, "-m", "venv", root / "venv", folder=root)
    assert done.returncode == 0, done.stdout
    (call.folder / "mine.py").write_text(CONFIG)
    add()
    return call


def test_both_are_fit_for_an_index(built, project):
    done = run(
        *(sys.executable, "-m", "twine", "check", "--strict"),
        *sorted(built.iterdir()),
        folder=project,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def test_the_installed_commands_work_in_any_folder(installed, rng):
    """In order: without the extras, which are asked for in one line; then with them."""
    photo = rng.integers(0, 256, (40, 48, 3), np.uint8)
    Image.fromarray(photo).save(installed.folder / "photo.png")
    done = installed("sevnet-denoise", "photo.png", "-o", "out.png")
    assert done.returncode == 0, done.stdout
    restored = np.asarray(Image.open(installed.folder / "out.png")).astype(int)
    assert np.abs(restored - sevnet_jax.load()(photo)).max() <= 1

    done = installed("sevnet-eval", "equivariance", "--config", "mine.py")
    assert done.returncode == 0, done.stdout
    assert "f(kx) = k f(x)" in done.stdout

    train = ("sevnet-train", "--config", "mine.py", "--workdir", "run")
    exports = [("sevnet-export", "--to", to, "-o", "a") for to in ("onnx", "stablehlo")]
    for command, extra in (
        (train, "sevnet_jax[train]"),
        *((command, "sevnet_jax[export]") for command in exports),
        (("sevnet-denoise", "--page"), "sevnet_jax[page]"),
        (
            (*("sevnet-eval", "compare", "--image", "photo.png"), "--method", "nlm"),
            "sevnet_jax[eval]",
        ),
    ):
        done = installed(*command)
        assert done.returncode == 2, done.stdout
        assert done.stdout.startswith(f"{command[0]}: ")
        assert f'pip install "{extra}"' in done.stdout
        assert done.stdout.count("\n") == 1

    installed.add("[train,export]")
    done = installed(*train)
    assert done.returncode == 0, done.stdout
    for command in exports:
        done = installed(*command, "--weights", "run")
        assert done.returncode == 0, done.stdout
    done = installed("sevnet-denoise", "photo.png", "--weights", "run", "--quiet")
    assert (done.returncode, done.stdout) == (0, "")
    assert (installed.folder / "photo_denoised.png").is_file()
