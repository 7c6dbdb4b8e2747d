"""From a training to a table and a restored photo: grey networks, and foreign ones."""

import numpy as np
import pytest
from PIL import Image

import sevnet_jax
from sevnet_jax.evaluation import commands
from sevnet_jax.inference import command as denoise
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.models import base
from sevnet_jax.training import command as train
from sevnet_jax.weights import load_named

GREY = """
from sevnet_jax.training.recipe import make_config

def get_config():
    fields = {"channels": 1, "width": 4, "blocks": (), "bottleneck": 1}
    return make_config("sevnet_s", fields, steps=2)
"""
# Ten lines of somebody's, and what makes them known.
FOREIGN = """
import jax.numpy as jnp
from flax import linen as nn
from sevnet_jax.models import Network, register
from sevnet_jax.training.recipe import make_config

class Foreign(Network):
    features: int = 4
    {reach}

    @nn.compact
    def __call__(self, x):
        y = jnp.tanh(nn.Conv(self.features, (3, 3))(x))
        return x + nn.Conv(x.shape[-1], (3, 3))(y)

register("foreign", Foreign)

def get_config():
    return make_config("foreign", steps=2)
"""

pytestmark = pytest.mark.usefixtures("_standard_promotion")


@pytest.fixture(autouse=True)
def _forget(monkeypatch, tmp_path):
    """What a config registers is gone after its test, and so is the user's cache."""
    monkeypatch.setattr(base, "_PRESETS", dict(base._PRESETS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path, rng):
    """A function (mode) that makes a folder of two photos, grey "L" or "RGB"."""

    def make(mode):
        folder = tmp_path / "set"
        folder.mkdir()
        for name in "ab":
            pixels = rng.integers(0, 256, (32, 24, 3), np.uint8)
            Image.fromarray(pixels).convert(mode).save(folder / f"{name}.png")
        return folder

    return make


def train_on(photos, text, tmp_path):
    (tmp_path / "config.py").write_text(text)
    argv = [
        *("--config", str(tmp_path / "config.py"), "--workdir", str(tmp_path / "run")),
        *("--config.data.batch_size=2", "--config.data.patch_size=16"),
        *(f"--config.data.source={photos}", f"--config.watch.source={photos}"),
        *("--config.watch.images=1", "--config.watch.size=16"),
    ]
    assert train.main(argv) == 0
    return tmp_path / "run"


def score(run, photos, tmp_path):
    argv = ["table", "--data", str(photos), "--weights", str(run), "--method", "noisy"]
    argv += ["--noise", "gaussian:20", "--paper", "none"]
    return commands.main([*argv, "--out", str(tmp_path / "table")])


def test_a_grey_network_is_trained_scored_and_used(photos, tmp_path, rng, capsys):
    folder = photos("L")
    run = train_on(folder, GREY, tmp_path)
    assert load_named(run).model.channels == 1
    assert score(run, folder, tmp_path) == 0
    assert "set in grey, 2 images" in capsys.readouterr().out
    restore = sevnet_jax.load(run)
    photo = np.asarray(Image.open(folder / "a.png"))
    restored = restore(photo)
    assert (restored.shape, restored.dtype) == (photo.shape, np.uint8)
    floats = rng.uniform(size=(17, 12)).astype(np.float32)
    np.testing.assert_array_equal(restore(8 * floats), 8 * restore(floats))
    # A colour photo is restored channel by channel.
    colour = rng.uniform(size=(17, 12, 3)).astype(np.float32)
    parts = np.stack([restore(colour[..., c]) for c in range(3)], -1)
    np.testing.assert_allclose(restore(colour), parts, atol=1e-6)


@pytest.mark.parametrize("reach", ["reach = 2", "# says nothing of its reach"])
def test_a_foreign_network_is_trained_scored_and_used(
    photos, tmp_path, reach, capsys, monkeypatch
):
    folder = photos("RGB")
    run = train_on(folder, FOREIGN.format(reach=reach), tmp_path)
    assert score(run, folder, tmp_path) == 0
    assert "set, 2 images" in capsys.readouterr().out
    argv = [str(folder / "a.png"), "--weights", str(run), "--quiet"]
    assert denoise.main([*argv, "-o", str(tmp_path / "whole.png")]) == 0
    whole = np.asarray(Image.open(tmp_path / "whole.png"))
    assert whole.shape == (32, 24, 3)
    # In tiles, where it says how far it sees; else it is refused them, in a line.
    monkeypatch.setattr(Denoiser.__init__, "__defaults__", (32 * 24 - 1, None, None))
    code = denoise.main([*argv, "-o", str(tmp_path / "tiled.png")])
    if reach.startswith("reach"):
        assert code == 0
        tiled = np.asarray(Image.open(tmp_path / "tiled.png")).astype(int)
        assert np.abs(tiled - whole).max() <= 1  # of 255
    else:
        assert code == 2
        error = capsys.readouterr().err
        assert "this network depends on the whole image" in error
        assert error.count("\n") == 1
        assert not (tmp_path / "tiled.png").exists()
