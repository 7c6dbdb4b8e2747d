"""benchmarks/ablations.py: rows are trained, tried again if late, scored, kept."""

import json
import runpy

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import study


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
    trials = (study.Trial(1.5e-3, 1), study.Trial(1e-4, 1))
    monkeypatch.setattr(study, "TRIALS", trials)
    monkeypatch.setattr(study, "CONVERGED_WITHIN", -100)  # nothing is close to 1a
    assert script["main"]([*argv, "--rows", "1a"]) == 0
    names = ["1a_seed0", "1a_seed0_lr0.0001_1", "1a_seed1", "1a_seed1_lr0.0001_1"]
    files = sorted((tmp_path / "out").iterdir())
    assert [file.stem for file in files] == sorted(names)
    run = json.loads(files[0].read_text())
    assert list(run["means"]["set"]) == list(PAPER_COLUMNS)
    assert run["provenance"]["network"]["training"]["recipe"]["source"] == "photos"
    assert str(tmp_path) not in files[0].read_text()
    assert "1a" in study.format_study(study.load(tmp_path / "out"))

    capsys.readouterr()
    before = [file.stat().st_mtime_ns for file in files]
    assert script["main"]([*argv, "--rows", "1a"]) == 0
    assert "---" not in capsys.readouterr().err  # nothing was trained
    assert [file.stat().st_mtime_ns for file in files] == before


def test_a_run_that_diverged_is_recorded(script, argv, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise script["Diverged"]("no finite gradient")

    monkeypatch.setitem(script["run"].__globals__, "train", fail)
    monkeypatch.setattr(study, "TRIALS", study.TRIALS[:1])
    assert script["main"]([*argv, "--rows", "unscaled"]) == 0
    run = json.loads((tmp_path / "out" / "unscaled_seed0.json").read_text())
    assert run["held_out"] is None
    assert run["diverged"] == "no finite gradient"
