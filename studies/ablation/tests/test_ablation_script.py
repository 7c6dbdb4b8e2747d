"""studies/ablation/run.py: rows are trained, go on if late, scored, kept."""

import json
import shutil
import types

import pytest

from sevnet_jax.data.noise import PAPER_COLUMNS
from studies import results, trainings
from studies.ablation import report, run


def test_a_late_row_goes_on_and_everything_is_kept(
    argv, asked, tmp_path, monkeypatch, capsys
):
    stages = [results.Stage(1.5e-3, 1), results.Stage(3e-3, 2), results.Stage(1e-3, 4)]
    monkeypatch.setattr(results, "STAGES", stages)
    scores = {"1a": [31.0] * 3, "2b": [30.9], "1a-narrow": [28.0]}
    scores |= {"2d": [29.0, 30.0, 29.5], "2e": [29.0, None, 30.0]}  # are late

    def read_held_out(folder, recipe):
        row, _, stage = folder.name.replace("1a_n", "1a-n").split("_")
        return scores[row][int(stage[-1])]

    monkeypatch.setattr(trainings, "read_held_out", read_held_out)
    train = trainings.train

    def diverge(recipe, folder, terminal):
        state = train(recipe, folder, terminal)
        if folder.name == "2e_seed0_stage1":
            raise trainings.Diverged("no finite gradient", 3)
        return state

    monkeypatch.setattr(trainings, "train", diverge)
    argv += ["--rows", "2b", "2d", "2e", "1a_narrow", "--repeated", "2b"]
    document = tmp_path / "results.md"
    document.write_text(f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n")
    argv += ["--write", str(document)]
    assert run.main(argv) == 0
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
    runs = results.load(tmp_path / "out")
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
    assert report.format_study(runs) in text
    assert "| 2e | 0 | 0.003 | 3 | diverged after 3 | - | no |" in text

    before = [file.stat().st_mtime_ns for file in files]
    assert run.main(argv) == 0
    assert [file.stat().st_mtime_ns for file in files] == before
    # Killed between training and scoring: only that is done.
    file = tmp_path / "out" / "2b_seed0_stage0.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "means": {}}))
    assert run.main(argv) == 0
    assert json.loads(file.read_text())["means"] == whole["means"]
    assert len(asked) == 13  # nothing is trained again
    # On another machine, without the weights: what the missing run starts from.
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "out" / "2d_seed0_stage2.json").unlink()
    assert run.main(argv) == 0
    assert asked[13:] == asked[4:7]

    monkeypatch.setattr(run, "PRESET", "sevnet_s")
    assert run.main(argv) == 2
    assert "belongs to a run with other settings" in capsys.readouterr().err


def test_1a_goes_on_for_as_long_as_the_latest_best(argv, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "STAGES", results.STAGES[:3])
    scores = {"1a": [31.0] * 3, "2d": [29.0, 30.0, 29.5]}

    def train_weights(study, run, start):
        return scores[run["row"]][run["stage"]]

    changes = {"train_weights": train_weights, "score": lambda *_: None}
    changes |= {"find_weights": lambda *_: None}
    for name, change in changes.items():
        monkeypatch.setattr(trainings, name, change)
    assert run.main([*argv, "--rows", "2d"]) == 0
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
    argv, tmp_path, monkeypatch, capsys, break_it, message
):
    (tmp_path / "out").mkdir()
    (tmp_path / "results.md").write_text(f"{results.BEGIN}{results.END}")
    break_it(tmp_path)
    monkeypatch.delattr(trainings, "train")
    assert run.main([*argv, f"--write={tmp_path / 'results.md'}"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("photos", "held_out", "code"),
    [
        ("{}/CBSD432=4,{}/train80=1", "{}/val20", 0),  # as the README has them
        ("{}/own", "{}/val20", 2),
        ("{}/CBSD432=4,{}/train80=1", "{}/own", 2),
    ],
)
def test_results_count_for_the_photos_that_they_are_of(
    argv, tmp_path, monkeypatch, capsys, photos, held_out, code
):
    monkeypatch.delattr(trainings, "train")
    monkeypatch.setattr(trainings, "score", lambda *_: None)
    monkeypatch.setattr(run, "draw", lambda *_: None)
    shutil.copytree(report.RESULTS, tmp_path / "out")
    names = {"--photos": photos, "--held_out": held_out}
    given = [
        f"{key}={name.replace('{}', str(tmp_path))}" for key, name in names.items()
    ]
    assert run.main([*argv, *given, "--rows", "2b", "2f"]) == code
    refused = "belongs to a run with other settings" in capsys.readouterr().err
    assert refused == bool(code)


def test_an_interruption_is_one_line(argv, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_all", interrupt)
    assert run.main(argv) == 130
    assert "rerun the same command" in capsys.readouterr().err


def test_without_its_weights_a_figure_is_left_out(
    argv, tmp_path, project, monkeypatch, capsys
):
    shutil.copytree(report.RESULTS, tmp_path / "out")
    (tmp_path / "out" / "figures" / "features.json").unlink()
    monkeypatch.setattr(run, "run_all", lambda *_: None)
    photos = [f"--photos={tmp_path}/CBSD432=4,{tmp_path}/train80=1"]
    assert run.main([*argv, *photos, f"--held_out={tmp_path}/val20"]) == 0
    told = capsys.readouterr().err
    assert "no features.png: no weights of 1a_seed0_stage0, unet_relu" in told
    assert "curve" not in told  # is up to date


def test_a_run_that_was_stopped_leaves_no_result(argv, tmp_path, monkeypatch):
    def stop(recipe, folder, terminal):
        return types.SimpleNamespace(step=recipe.steps - 1)

    monkeypatch.setattr(trainings, "train", stop)
    with pytest.raises(SystemExit, match="rerun the same command"):
        run.main(argv)
    assert not list(tmp_path.glob("out/*.json"))


def test_a_narrow_row_has_half_the_width():
    wide, narrow = (run.make_row(row).model.to_dict() for row in ("1a", "1a_narrow"))
    assert narrow == {**wide, "width": wide["width"] // 2}


def test_a_run_that_diverged_is_recorded(argv, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise trainings.Diverged("no finite gradient", 3)

    monkeypatch.setattr(trainings, "train", fail)
    monkeypatch.setattr(results, "STAGES", results.STAGES[:1])
    assert run.main([*argv, "--rows", "unscaled"]) == 0
    path = tmp_path / "out" / "unscaled_seed0_stage0.json"
    found = json.loads(path.read_text())
    assert found["held_out"] is None
    assert found["diverged_after"] == 3
    assert found["means"] == {}


@pytest.mark.slow
def test_one_row_is_really_trained_scored_and_drawn(argv, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "STAGES", (results.Stage(1.5e-3, 1),))
    monkeypatch.setattr(run, "DRAWN", ("1a",))
    monkeypatch.setattr(run, "SEEDS", (0,))
    assert run.main([*argv, "--rows", "1a"]) == 0
    runs = results.load(tmp_path / "out")
    recipe = results.find_recipe(runs["1a_seed0_stage0"])
    assert recipe["data.source"] == "photos"
    assert recipe["watch.source"] == "held"
    assert recipe["optimizer.learning_rate"] == 1.5e-3
    assert recipe["seed"] == 0
    assert recipe["model"]["name"] == "sevnet_xs"
    names = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert names == {"curve.png", "curve.json", "features.json"}
