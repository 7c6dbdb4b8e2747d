"""docs/extend.md: its files are short, train as they are, and are known afterwards."""

import re

import numpy as np
import pytest
from PIL import Image

import sevnet_jax
from sevnet_jax import config
from sevnet_jax.data import noise, sources
from sevnet_jax.evaluation import commands
from sevnet_jax.inference import command as denoise
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.models import base, layers
from sevnet_jax.training import command as train
from sevnet_jax.training import losses
from sevnet_jax.weights import load_named

NAMES = ["my_block", "my_network", "my_noise", "my_source", "my_loss"]


@pytest.fixture(scope="module")
def files(project):
    text = (project / "docs" / "extend.md").read_text()
    found = re.findall(r"```python\n(# (\w+)\.py\n.*?)```", text, re.DOTALL)
    return {name: code for code, name in found}


@pytest.fixture(autouse=True)
def forget(monkeypatch, tmp_path):
    """What a file defines is gone after its test, and so is the user's cache."""

    def undo():
        for table, name in (
            *((layers, "GATES"), (losses, "LOSSES"), (base, "_PRESETS")),
            *((noise, "MAKERS"), (sources, "KINDS")),
        ):
            monkeypatch.setattr(table, name, dict(originals[name]))
        monkeypatch.setattr(config, "_loaded", {})
        monkeypatch.setattr(config, "_owners", {})

    tables = (layers, losses, base, noise, sources)
    names = ("GATES", "LOSSES", "_PRESETS", "MAKERS", "KINDS")
    originals = {n: getattr(t, n) for n in names for t in tables if hasattr(t, n)}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    undo()
    return undo


@pytest.fixture
def photo(tmp_path, rng):
    (tmp_path / "set").mkdir()
    pixels = rng.integers(0, 256, (40, 24, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "set" / "a.png")
    return tmp_path / "set" / "a.png"


@pytest.fixture
def train_file(files, tmp_path):
    """A function that saves a file of the page and trains with it for two steps."""

    def run(name):
        (tmp_path / f"{name}.py").write_text(files[name])
        small = () if name == "my_network" else ("--config.model.blocks=()",)
        code = train.main(
            [
                *("--config", str(tmp_path / f"{name}.py")),
                *("--workdir", str(tmp_path / "run"), "--config.steps=2"),
                *("--config.data.batch_size=2", "--config.data.patch_size=16"),
                *("--config.watch.images=1", "--config.watch.size=16"),
                *("--config.model.width=4", *small),
            ]
        )
        assert code == 0
        return tmp_path / "run"

    return run


def test_the_page_has_one_of_each(files):
    assert list(files) == NAMES
    assert all(len(code.splitlines()) <= 30 for code in files.values())


@pytest.mark.usefixtures("_standard_promotion")
@pytest.mark.parametrize("name", NAMES)
def test_the_file_of_the_page_trains_and_its_weights_are_used(
    train_file, forget, photo, name, capsys
):
    run = train_file(name)
    forget()  # as in another process, which has not seen the config
    assert denoise.main([str(photo), "--weights", str(run), "--quiet"]) == 0
    assert photo.with_name("a_denoised.png").exists()
    law = "banding:20" if name == "my_noise" else "speckle:60"
    argv = ["table", "--data", str(photo.parent), "--limit", "1", "--weights", str(run)]
    out = str(run.parent / "table")
    assert commands.main([*argv, "--noise", law, "--paper", "none", "--out", out]) == 0
    assert law in capsys.readouterr().out


@pytest.mark.usefixtures("_standard_promotion")
def test_what_is_not_remembered_is_asked_for(
    train_file, forget, photo, capsys, tmp_path
):
    """On another machine, or after the config was changed."""
    run = train_file("my_block")
    config = tmp_path / "my_block.py"
    original = config.read_text()
    for change in (lambda: config.write_text(original + "# other"), config.unlink):
        change()
        forget()
        assert denoise.main([str(photo), "--weights", str(run)]) == 2
        error = capsys.readouterr().err
        assert "unknown gate 'max'" in error
        assert "the config my_block.py defines it, add --parts with that file" in error
    forget()
    config.write_text(original + "# other")
    argv = [str(photo), "--weights", str(run), "--quiet", "--parts", str(config)]
    assert denoise.main(argv) == 0


@pytest.mark.usefixtures("_standard_promotion")
def test_a_part_that_changed_is_noticed_when_its_run_resumes(
    train_file, files, monkeypatch, capsys
):
    train_file("my_loss")
    original = files["my_loss"]
    monkeypatch.setitem(files, "my_loss", original + "# other")
    with pytest.raises(AssertionError, match="assert 2 == 0"):
        train_file("my_loss")
    assert "sha256.config was" in capsys.readouterr().err


@pytest.mark.usefixtures("_standard_promotion")
def test_a_comment_in_a_config_without_parts_is_no_change(
    train_file, files, monkeypatch
):
    plain = "from sevnet_jax.training.recipe import make_config\n"
    plain += "def get_config(): return make_config('sevnet_s')\n"
    for comment in ("", "# other"):
        monkeypatch.setitem(files, "plain", plain + comment)
        train_file("plain")


@pytest.mark.usefixtures("_standard_promotion")
def test_parts_of_one_name_are_refused_wherever_two_configs_meet(
    train_file, files, forget, photo, capsys, tmp_path
):
    """And not replaced: the weights of one would be used with the other's gate."""
    first = train_file("my_block")
    forget()
    second = tmp_path / "my_block2.py"
    second.write_text(files["my_block"].replace("jnp.maximum", "jnp.minimum"))
    clash = r"my_block2?\.py and .*my_block2?\.py both define gate 'max'; rename one"
    changes = f"--config.init_weights={first}", "--config.steps=2"
    argv = ["--config", str(second), "--workdir", str(tmp_path / "other"), *changes]
    assert train.main(argv) == 2
    assert re.search(clash, capsys.readouterr().err)
    argv = ["table", "--data", str(photo.parent), "--weights", str(first)]
    assert commands.main([*argv, "--parts", str(second)]) == 2
    assert re.search(clash, capsys.readouterr().err)
    forget()
    configs = "--config", str(tmp_path / "my_block.py"), "--config", str(second)
    assert commands.main(["equivariance", "--size", "8", *configs]) == 2
    assert re.search(clash, capsys.readouterr().err)


@pytest.mark.usefixtures("_standard_promotion")
def test_the_block_of_the_page_tiled_equals_the_whole(train_file, rng):
    """It holds a convolution that no name tells of: its reach is measured."""
    weights = load_named(train_file("my_block"))
    plain = sevnet_jax.create_model("sevnet_s", gate="relu", width=4, blocks=())
    assert weights.model.reach > plain.reach
    image = rng.uniform(size=(2 * weights.model.reach + 64, 16, 3)).astype("float32")
    whole = Denoiser(weights)(image)
    tiled = Denoiser(weights, tile_pixels=image[..., 0].size - 1)(image)
    np.testing.assert_allclose(tiled, whole, atol=1e-5)


def test_the_block_of_the_page_keeps_the_law(files, tmp_path):
    shallow = files["my_block"].replace('"width": 16', '"width": 4, "blocks": ()')
    assert shallow != files["my_block"]
    (tmp_path / "my_block.py").write_text(shallow)
    argv = ["--out", str(tmp_path / "a.png"), "--config", str(tmp_path / "my_block.py")]
    assert commands.main(["equivariance", "--size", "8", *argv]) == 0


def test_a_source_that_cannot_load_is_noticed_at_once():
    """Not image by image, as files that cannot be read."""

    class Forgetful(sources.Source):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Forgetful("forgetful", 3, 8, sources.Cache())
