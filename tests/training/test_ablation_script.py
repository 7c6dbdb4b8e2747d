"""benchmarks/ablations.py: rows are trained, tried again if late, scored, kept."""

import json
import runpy
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import study
from sevnet_jax.inference.weights import save_weights
from sevnet_jax.models import create_model


@pytest.fixture(scope="module")
def script(project):
    return runpy.run_path(str(project / "benchmarks" / "ablations.py"))


@pytest.fixture
def argv(rng, tmp_path):
    """Folders of photos, and what the script is to make of them."""
    for name, side in (("photos", 64), ("held", 256), ("set", 16)):
        (tmp_path / name).mkdir()
        pixels = rng.integers(0, 256, (side, side, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / name / "a.png")
    options = {"photos": "photos", "held_out": "held", "test": "set",
               "workdir": "runs", "out": "out"}  # fmt: skip
    return [f"--{key}={tmp_path / value}" for key, value in options.items()]


def test_a_late_row_is_tried_again_and_everything_is_kept(
    script, argv, tmp_path, monkeypatch, capsys
):
    trials = (study.Trial(1.5e-3, 1), study.Trial(1e-4, 2))
    monkeypatch.setattr(study, "TRIALS", trials)
    scores = {"1a": 31.0, "2b": 30.9, "2e": 30.0}  # 2e is late

    def read_held_out(folder, recipe):
        return scores[folder.name.partition("_")[0]]

    monkeypatch.setitem(script["run"].__globals__, "read_held_out", read_held_out)
    monkeypatch.setitem(script["run"].__globals__, "REPEATED", ("1a", "2b"))
    # Training is tested elsewhere: here, which recipes are asked for.
    asked = []

    def train(recipe, folder, terminal):
        asked.append((folder.name, recipe.seed, recipe.learning_rate, recipe.steps))
        model = create_model("sevnet_s", width=4, blocks=(1,), bottleneck=0)
        params = model.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3)))
        config = {"name": "sevnet_s", "width": 4, "blocks": [1], "bottleneck": 0}
        save_weights(folder / "weights.safetensors", params, config, {})
        return types.SimpleNamespace(step=recipe.steps)

    monkeypatch.setitem(script["run"].__globals__, "train", train)
    assert script["main"]([*argv, "--rows", "2b", "2e"]) == 0
    first, second = (trial.name for trial in trials)
    assert asked == [
        (f"1a_seed0_{first}", 0, 1.5e-3, 1),
        (f"2b_seed0_{first}", 0, 1.5e-3, 1),
        (f"2e_seed0_{first}", 0, 1.5e-3, 1),
        (f"2e_seed0_{second}", 0, 1e-4, 2),
        (f"1a_seed1_{first}", 1, 1.5e-3, 1),
        (f"2b_seed1_{first}", 1, 1.5e-3, 1),
        (f"1a_seed0_{second}", 0, 1e-4, 2),
    ]
    files = sorted((tmp_path / "out").glob("*.json"))
    assert sorted(name for name, *_ in asked) == [file.stem for file in files]
    run = json.loads(files[0].read_text())
    assert list(run["means"]["set"]) == list(PAPER_COLUMNS)
    assert str(tmp_path) not in files[0].read_text()
    assert "2e" in study.format_study(study.load(tmp_path / "out"))

    before = [file.stat().st_mtime_ns for file in files]
    assert script["main"]([*argv, "--rows", "2b", "2e"]) == 0
    assert len(asked) == 7  # nothing is trained again
    assert [file.stat().st_mtime_ns for file in files] == before

    monkeypatch.setitem(script["run"].__globals__, "PRESET", "sevnet_s")
    assert script["main"]([*argv, "--rows", "2b"]) == 2
    assert "is of a run with other settings" in capsys.readouterr().err


def test_a_run_that_diverged_is_recorded(script, argv, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise script["Diverged"]("no finite gradient")

    monkeypatch.setitem(script["run"].__globals__, "train", fail)
    monkeypatch.setattr(study, "TRIALS", study.TRIALS[:1])
    assert script["main"]([*argv, "--rows", "unscaled"]) == 0
    name = f"unscaled_seed0_{study.TRIALS[0].name}"
    run = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert run["held_out"] is None
    assert run["means"] == {}


@pytest.mark.slow
def test_one_row_is_really_trained_scored_and_drawn(
    script, argv, tmp_path, monkeypatch
):
    monkeypatch.setattr(study, "TRIALS", (study.Trial(1.5e-3, 1),))
    monkeypatch.setitem(script["run"].__globals__, "DRAWN", ("1a",))
    monkeypatch.setitem(script["run"].__globals__, "REPEATED", ())
    script["run_all"].__globals__["ROWS"] = ("1a",)
    assert script["main"]([*argv, "--rows", "1a"]) == 0
    runs = study.load(tmp_path / "out")
    recipe = runs[f"1a_seed0_{study.TRIALS[0].name}"]["provenance"]["network"][
        "training"
    ]["recipe"]
    assert recipe["source"] == "photos"
    assert recipe["seed"] == 0
    assert recipe["model"]["name"] == "sevnet_xs"
    names = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert names == {"curve.png", "curve.json", "features.png", "features.json"}
