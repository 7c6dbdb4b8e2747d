"""benchmarks/ablations.py: rows are trained, go on if late, scored, kept."""

import json
import runpy
import shutil
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


def test_a_late_row_goes_on_and_everything_is_kept(
    script, argv, tmp_path, monkeypatch, capsys
):
    stages = [study.Stage(1.5e-3, 1), study.Stage(3e-3, 2), study.Stage(1e-3, 4)]
    monkeypatch.setattr(study, "STAGES", stages)
    scores = {"1a": [31.0] * 3, "2b": [30.9], "1a-narrow": [28.0]}
    scores |= {"2d": [29.0, 30.0, 29.5], "2e": [29.0, None, 30.0]}  # are late

    def read_held_out(folder, recipe):
        row, _, stage = folder.name.replace("1a_n", "1a-n").split("_")
        return scores[row][int(stage[-1])]

    monkeypatch.setitem(script["main"].__globals__, "read_held_out", read_held_out)
    # Training is tested elsewhere: here, which recipes are asked for.
    asked = []

    def train(recipe, folder, terminal):
        start = recipe.init_weights.rpartition("/")[2]
        asked.append((folder.name, recipe.seed, recipe.learning_rate, start))
        if folder.name == "2e_seed0_stage1":
            raise script["Diverged"]("no finite gradient", 3)
        model = create_model("sevnet_s", width=4, blocks=(1,), bottleneck=0)
        params = model.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3)))
        config = {"name": "sevnet_s", "width": 4, "blocks": [1], "bottleneck": 0}
        save_weights(folder / "weights.safetensors", params, config, {})
        return types.SimpleNamespace(step=recipe.steps)

    monkeypatch.setitem(script["main"].__globals__, "train", train)
    argv += ["--rows", "2b", "2d", "2e", "1a_narrow", "--repeated", "2b"]
    document = tmp_path / "results.md"
    document.write_text(f"before\n{study.BEGIN}\nold\n{study.END}\nafter\n")
    argv += ["--write", str(document)]
    assert script["main"](argv) == 0
    assert asked == [
        ("1a_seed0_stage0", 0, 1.5e-3, ""),
        ("1a_seed1_stage0", 1, 1.5e-3, ""),
        ("2b_seed0_stage0", 0, 1.5e-3, ""),
        ("2b_seed1_stage0", 1, 1.5e-3, ""),
        ("2d_seed0_stage0", 0, 1.5e-3, ""),
        ("2d_seed0_stage1", 10, 3e-3, "2d_seed0_stage0"),
        ("2d_seed0_stage2", 20, 1e-3, "2d_seed0_stage1"),
        ("2e_seed0_stage0", 0, 1.5e-3, ""),
        ("2e_seed0_stage1", 10, 3e-3, "2e_seed0_stage0"),
        ("2e_seed0_stage2", 20, 1e-3, "2e_seed0_stage0"),  # the last that came through
        ("1a_narrow_seed0_stage0", 0, 1.5e-3, ""),
        ("1a_seed0_stage1", 10, 3e-3, "1a_seed0_stage0"),
        ("1a_seed0_stage2", 20, 1e-3, "1a_seed0_stage1"),
    ]
    files = sorted((tmp_path / "out").glob("*.json"))
    assert sorted(name for name, *_ in asked) == [file.stem for file in files]
    runs = study.load(tmp_path / "out")
    scored = [name for name, run in runs.items() if run["means"]]
    assert scored == [
        "1a_narrow_seed0_stage0",
        "1a_seed0_stage0",
        "1a_seed0_stage1",
        "1a_seed0_stage2",
        "1a_seed1_stage0",
        "2b_seed0_stage0",
        "2b_seed1_stage0",
        "2d_seed0_stage1",
        "2e_seed0_stage2",
    ]
    assert list(runs["2e_seed0_stage2"]["means"]["set"]) == list(PAPER_COLUMNS)
    assert runs["2e_seed0_stage2"]["steps"] == 1 + 4
    assert not any(str(tmp_path) in file.read_text() for file in files)
    text = document.read_text()
    assert text.startswith("before\n")
    assert study.format_study(runs) in text
    assert "| 2e | 0 | 0.003 | 3 | diverged after 3 | - | no |" in text

    before = [file.stat().st_mtime_ns for file in files]
    assert script["main"](argv) == 0
    assert [file.stat().st_mtime_ns for file in files] == before
    # Killed between training and scoring: only that is done.
    file = tmp_path / "out" / "2b_seed0_stage0.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "means": {}}))
    assert script["main"](argv) == 0
    assert json.loads(file.read_text())["means"] == whole["means"]
    assert len(asked) == 13  # nothing is trained again
    # On another machine, without the weights: what the missing run starts from.
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "out" / "2d_seed0_stage2.json").unlink()
    assert script["main"](argv) == 0
    assert asked[13:] == asked[4:7]

    monkeypatch.setitem(script["main"].__globals__, "PRESET", "sevnet_s")
    assert script["main"](argv) == 2
    assert "is of a run with other settings" in capsys.readouterr().err


def test_1a_goes_on_for_as_long_as_the_latest_best(script, argv, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "STAGES", study.STAGES[:3])
    scores = {"1a": [31.0] * 3, "2d": [29.0, 30.0, 29.5]}

    def train_weights(args, run, start):
        return scores[run["row"]][run["stage"]]

    changes = {"train_weights": train_weights, "score": lambda *_: None}
    changes |= {"find_weights": lambda *_: None}
    for name, change in changes.items():
        monkeypatch.setitem(script["main"].__globals__, name, change)
    assert script["main"]([*argv, "--rows", "2d"]) == 0
    names = sorted(path.stem for path in tmp_path.glob("out/1a_seed0_*.json"))
    assert names == ["1a_seed0_stage0", "1a_seed0_stage1"]


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda path: shutil.rmtree(path / "set"), "set"),
        (lambda path: (path / "results.md").write_text("no marks"), "lacks the lines"),
        (lambda path: (path / "out" / "a.json").write_text("{"), "a.json holds no run"),
    ],
)
def test_mistakes_are_said_before_anything_is_trained(
    script, argv, tmp_path, monkeypatch, capsys, break_it, message
):
    (tmp_path / "out").mkdir()
    (tmp_path / "results.md").write_text(f"{study.BEGIN}{study.END}")
    break_it(tmp_path)
    monkeypatch.delitem(script["main"].__globals__, "train")
    assert script["main"]([*argv, f"--write={tmp_path / 'results.md'}"]) == 2
    assert message in capsys.readouterr().err


def test_an_interruption_is_one_line(script, argv, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setitem(script["main"].__globals__, "run_all", interrupt)
    assert script["main"](argv) == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_without_its_weights_a_figure_is_left_out(
    script, argv, tmp_path, project, monkeypatch, capsys
):
    shutil.copytree(project / "docs" / "ablations", tmp_path / "out")
    (tmp_path / "out" / "figures" / "features.json").unlink()
    monkeypatch.setitem(script["main"].__globals__, "run_all", lambda _: None)
    assert script["main"](argv) == 0
    told = capsys.readouterr().err
    assert "no features.png: no weights of 1a_seed0_stage0, unet_relu" in told
    assert "curve" not in told  # is up to date


def test_a_run_that_was_stopped_leaves_no_result(script, argv, tmp_path, monkeypatch):
    def stop(recipe, folder, terminal):
        return types.SimpleNamespace(step=recipe.steps - 1)

    monkeypatch.setitem(script["main"].__globals__, "train", stop)
    with pytest.raises(SystemExit, match="the same command goes on"):
        script["main"](argv)
    assert not list(tmp_path.glob("out/*.json"))


def test_a_narrow_row_has_half_the_width(script):
    args = types.SimpleNamespace(photos="photos", held_out="held")
    wide, narrow = (
        script["make_recipe"](args, row, 0, 0, None) for row in ("1a", "1a_narrow")
    )
    assert narrow.model == {**wide.model, "width": wide.model["width"] // 2}


def test_a_run_that_diverged_is_recorded(script, argv, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise script["Diverged"]("no finite gradient", 3)

    monkeypatch.setitem(script["main"].__globals__, "train", fail)
    monkeypatch.setattr(study, "STAGES", study.STAGES[:1])
    assert script["main"]([*argv, "--rows", "unscaled"]) == 0
    path = tmp_path / "out" / "unscaled_seed0_stage0.json"
    run = json.loads(path.read_text())
    assert run["held_out"] is None
    assert run["diverged_after"] == 3
    assert run["means"] == {}


@pytest.mark.slow
def test_one_row_is_really_trained_scored_and_drawn(
    script, argv, tmp_path, monkeypatch
):
    monkeypatch.setattr(study, "STAGES", (study.Stage(1.5e-3, 1),))
    monkeypatch.setitem(script["main"].__globals__, "DRAWN", ("1a",))
    monkeypatch.setitem(script["main"].__globals__, "SEEDS", (0,))
    assert script["main"]([*argv, "--rows", "1a"]) == 0
    runs = study.load(tmp_path / "out")
    provenance = runs["1a_seed0_stage0"]["provenance"]
    recipe = provenance["network"]["training"]["recipe"]
    assert recipe["source"] == "photos"
    assert recipe["seed"] == 0
    assert recipe["model"]["name"] == "sevnet_xs"
    names = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert names == {"curve.png", "curve.json", "features.json"}
