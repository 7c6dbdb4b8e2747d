"""studies/rivals/run.py: trained, wrapped, repeated, resumed; figure and tables."""

import json
import os
import shutil
import signal

import numpy as np
import pytest

from sevnet_jax.data.noise import PAPER_COLUMNS
from sevnet_jax.evaluation import methods
from sevnet_jax.models import create_model, list_models
from sevnet_jax.training.recipe import make_config
from sevnet_jax.weights import load_weights
from studies import results, trainings
from studies.ablation.rows import SMALLEST
from studies.rivals import networks, report, run

# What each network scores on held-out photos, stage by stage.
HELD_OUT = {
    "sevnet_xs": [31.0, 31.1, 31.2],
    "nafnet_xs": [30.9],
    "esc_xs": [29.0, 30.8],
    "akdt_xs": [29.0, 29.5, 29.4],  # never converges
    "sadnet_xs": [30.8],
    "grl_xs": [30.8],
}
# What they score out of distribution, instead of what the tiny network does.
OUTSIDE = {"nafnet_xs": 20.0, "esc_xs": 10.0, "akdt_xs": 5.0, "sadnet_xs": 21.0}


@pytest.fixture
def study(argv, asked, tmp_path, monkeypatch):
    """The options of a study whose trainings cost nothing."""

    def read_held_out(folder, recipe):
        name, _, rest = folder.name.partition("_seed")
        scores = HELD_OUT.get(networks.name_preset(name), [30.9])
        return scores[int(rest[-1])]

    def write_run(folder, found):
        means = found["means"].get("set", {})
        for noise in means:
            if noise != "gaussian:20" and found["row"] in OUTSIDE:
                means[noise]["psnr"] = OUTSIDE[found["row"]]
        write(folder, found)

    def open_methods(names):
        """Networks that compile nothing: what they restore is tested elsewhere."""
        data = {"source": "photos", "noise": "gaussian:5-20"}
        recipe = {"data": data, "optimizer": {}, "watch": {"source": "held"}}
        about = {"training": {"recipe": recipe}}
        return [methods.Method("network", lambda noisy, _: noisy * 0.99, about)]

    monkeypatch.setattr(methods, "open_methods", open_methods)
    monkeypatch.setattr(run, "validate", lambda *_: 25.0)
    write = results.write_run
    monkeypatch.setattr(results, "write_run", write_run)
    monkeypatch.setattr(trainings, "read_held_out", read_held_out)
    monkeypatch.setattr(run, "LEVELS", (5, 50))
    document = tmp_path / "README.md"
    document.write_text(f"before\n{results.BEGIN}\n{results.END}\nafter\n")
    chosen = ["nafnet_xs", "esc_xs", "akdt_xs", "sadnet_xs"]
    return [*argv, "--write", str(document), "--networks", *chosen]


def test_networks_are_trained_then_the_losers_wrapped(study, asked, tmp_path):
    assert run.main(study) == 0
    first, later, last = (stage.learning_rate for stage in results.STAGES[:3])
    assert asked == [
        ("sevnet_xs_seed0_stage0", 0, first, ""),
        ("sevnet_xs_seed1_stage0", 1, first, ""),
        ("unet_relu_xs_seed0_stage0", 0, first, ""),
        ("nafnet_xs_seed0_stage0", 0, first, ""),
        ("esc_xs_seed0_stage0", 0, first, ""),
        ("esc_xs_seed0_stage1", 10, later, "esc_xs_seed0_stage0"),
        ("akdt_xs_seed0_stage0", 0, first, ""),
        ("akdt_xs_seed0_stage1", 10, later, "akdt_xs_seed0_stage0"),
        ("akdt_xs_seed0_stage2", 20, last, "akdt_xs_seed0_stage1"),
        ("sadnet_xs_seed0_stage0", 0, first, ""),
        # The lowest out of distribution that converged, and one seed more of it.
        ("esc_xs_wrapped_seed0_stage0", 0, first, ""),
        ("esc_xs_wrapped_seed0_stage1", 10, later, "esc_xs_wrapped_seed0_stage0"),
        ("nafnet_xs_wrapped_seed0_stage0", 0, first, ""),
        ("sadnet_xs_wrapped_seed0_stage0", 0, first, ""),
        ("esc_xs_seed1_stage0", 1, first, ""),
        ("esc_xs_seed1_stage1", 11, later, "esc_xs_seed1_stage0"),
        ("esc_xs_wrapped_seed1_stage0", 1, first, ""),
        ("esc_xs_wrapped_seed1_stage1", 11, later, "esc_xs_wrapped_seed1_stage0"),
        # The control of as many steps.
        ("sevnet_xs_seed0_stage1", 10, later, "sevnet_xs_seed0_stage0"),
    ]
    runs = results.load(tmp_path / "out")
    only = [name for name in runs if networks.ONLY in name]
    trained = {name for name, *_ in asked}
    assert {*runs} == {*trained, *only, "noisy_seed0_stage0"}
    assert only == [
        "esc_xs_only_wrapped_seed0_stage1",
        "nafnet_xs_only_wrapped_seed0_stage0",
        "sadnet_xs_only_wrapped_seed0_stage0",
    ]
    for name, found in runs.items():
        scored = found["means"].get("set", {})
        assert [*scored] in ([], [*PAPER_COLUMNS])
        if scored:
            assert found["curve"]["levels"] == [5, 50]
            assert len(found["curve"]["psnr"]) == 2
        assert str(tmp_path) not in json.dumps(found), name

    weights = load_weights(tmp_path / "runs" / only[0] / "weights.safetensors")
    bare = load_weights(tmp_path / "runs" / "esc_xs_seed0_stage1/weights.safetensors")
    inner, inside = weights.model.unwrap(weights.params)
    assert inner.clone(centre="image") == bare.model
    np.testing.assert_array_equal(
        inside["params"]["head"]["kernel"], bare.params["params"]["head"]["kernel"]
    )
    # Those of the held-out photo, which is uniform noise.
    assert weights.model.mean == pytest.approx(0.5, abs=0.01)
    assert weights.model.deviation == pytest.approx(1 / 12**0.5, abs=0.01)

    text = (tmp_path / "README.md").read_text()
    assert report.format_study(runs) in text
    assert "Trained on photos, chosen by held: all runs." in text
    # It did not converge, and it is the only one that says so.
    (line,) = [t for t in text.splitlines() if "not within 0.3 dB" in t]
    assert line.startswith("| AKDT |")
    assert (tmp_path / "out" / "figures" / "curve.png").stat().st_size > 10_000

    again = [path.stat().st_mtime_ns for path in sorted(tmp_path.glob("out/*.json"))]
    assert run.main(study) == 0
    assert len(asked) == 19
    files = sorted(tmp_path.glob("out/*.json"))
    assert [path.stat().st_mtime_ns for path in files] == again


def test_more_networks_join_later(study, asked, tmp_path):
    few = [*study[:-3], "--repeated"]  # nafnet_xs alone, no second seeds
    assert run.main(few) == 0
    before = len(asked)
    assert run.main([*few, "--networks", "nafnet_xs", "grl_xs"]) == 0
    names = [name for name, *_ in asked[before:]]
    assert names == ["grl_xs_seed0_stage0", "grl_xs_wrapped_seed0_stage0"]


def test_another_computer_continues_from_the_kept_weights(study, asked, tmp_path):
    assert run.main(study) == 0
    before = len(asked)
    shutil.rmtree(tmp_path / "runs")
    wrapped = tmp_path / "out" / "nafnet_xs_only_wrapped_seed0_stage0.json"
    scores = wrapped.read_text()
    wrapped.unlink()
    assert run.main(study) == 0
    assert len(asked) == before
    assert wrapped.read_text() == scores

    # But not from weights that the scores are not of, and not without any.
    shutil.rmtree(tmp_path / "runs")
    kept = tmp_path / "out" / "weights" / "nafnet_xs_seed0_stage0.safetensors"
    path = tmp_path / "out" / "nafnet_xs_seed0_stage0.json"
    found = json.loads(path.read_text())
    found["provenance"]["network"]["weights_sha256"] = "0" * 64
    path.write_text(json.dumps(found))
    wrapped.unlink()
    assert run.main(study) == 2
    kept.unlink()
    assert run.main(study) == 0
    assert [name for name, *_ in asked[before:]] == ["nafnet_xs_seed0_stage0"]
    assert kept.exists()
    # The weights are others, and so are the scores of the bare network.
    again = json.loads(path.read_text())
    assert again["means"]["set"]
    assert "0" * 64 not in json.dumps(again)
    # What was trained again takes the place of what was kept.
    newest = load_weights(kept).sha256
    kept.write_bytes(b"older")
    path.unlink()
    shutil.rmtree(tmp_path / "runs" / "nafnet_xs_seed0_stage0")
    assert run.main(study) == 0
    assert load_weights(kept).sha256 == newest


def test_scores_on_more_sets_are_kept_and_added(study, asked, tmp_path):
    shutil.copytree(tmp_path / "set", tmp_path / "more")
    both = [*study, "--test", str(tmp_path / "set"), str(tmp_path / "more")]

    def read():
        files = sorted(tmp_path.glob("out/*.json"))
        return {path.name: json.loads(path.read_text()) for path in files}

    assert run.main(study) == 0
    first = read()
    assert run.main(both) == 0
    second = read()
    assert run.main(study) == 0  # of one set: nothing is lost
    assert read() == second
    shutil.copytree(tmp_path / "set", tmp_path / "other")
    assert run.main([*study, "--test", str(tmp_path / "other")]) == 0
    for name, found in read().items():
        kept = {"set", "more", "other"} if first[name]["means"] else set()
        assert {*found["means"]} == kept, name
    for name, found in first.items():
        assert {*second[name]["means"]} == (
            {"set", "more"} if found["means"] else set()
        )
        assert second[name]["means"].get("set") == found["means"].get("set")
    assert len(asked) == 19


def test_a_stop_while_scoring_is_one_line_and_loses_nothing(
    study, asked, tmp_path, monkeypatch, capsys
):
    def stop(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(trainings, "score_method", stop)
    before = signal.getsignal(signal.SIGTERM)
    assert run.main(study) == 130
    assert "rerun the same command to resume" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_other_photos_are_refused_before_anything_is_written(
    study, asked, tmp_path, capsys
):
    assert run.main(study) == 0
    before = {path: path.read_bytes() for path in tmp_path.glob("out/*.json")}
    shutil.copytree(tmp_path / "set", tmp_path / "more")
    others = ["--photos", str(tmp_path / "set"), "--test", str(tmp_path / "more")]
    assert run.main([*study, *others]) == 2
    assert "other settings (photos); give another --out" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.glob("out/*.json")} == before


def test_an_unfinished_training_without_its_checkpoints_is_refused(
    study, tmp_path, monkeypatch, capsys
):
    saved, there = tmp_path / "runs" / "sevnet_xs_seed0_stage0" / ".saved", []

    def lose(recipe, folder, terminal):
        there.append(saved.exists())
        saved.parent.mkdir(parents=True, exist_ok=True)
        saved.touch()
        raise ValueError("its checkpoints are gone")

    monkeypatch.setattr(trainings, "train", lose)
    assert run.main(study) == 2
    assert run.main(study) == 2
    assert "its checkpoints are gone" in capsys.readouterr().err
    assert there == [False, True]


def test_mistakes_are_said_before_anything_is_trained(study, monkeypatch, capsys):
    monkeypatch.delattr(trainings, "train")
    for row in ("nafnet", "unet_relu_xs_wrapped"):
        assert run.main([*study, "--repeated", row]) == 2
        assert f"unknown row {row!r}" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run.main([*study, "--networks", "sevnet"])


def test_every_rival_is_trained_as_the_ablation_is():
    rivals = {name for name in list_models("rival") if name.endswith("_xs")}
    assert {*networks.FIRST, *networks.OTHERS} == {*networks.PAPER} == rivals
    for row in (networks.OURS, "esc_xs", "esc_xs_wrapped"):
        config = networks.make_row(row)
        preset, wrapped = networks.name_preset(row), row.endswith("_wrapped")
        assert create_model(**config.model) == create_model(preset, wrapped=wrapped)
        ablation = make_config("sevnet_xs", **SMALLEST).to_dict()
        assert {**config.to_dict(), "model": {}} == {**ablation, "model": {}}


@pytest.mark.slow
def test_networks_are_really_trained_wrapped_and_scored(argv, tmp_path, monkeypatch):
    tiny = {
        "nafnet_xs": {"width": 4, "encoder": (1,), "middle": 1, "decoder": (1,)},
        "swinir_xs": {"width": 4, "blocks": (1,), "heads": (1,)},
    }

    def make_row(row):
        preset = networks.name_preset(row)
        small = tiny.get(preset, {"width": 4, "blocks": (1,), "bottleneck": 0})
        return make_config(preset, {**small, "wrapped": row != preset}, **SMALLEST)

    monkeypatch.setattr(run, "make_row", make_row)
    monkeypatch.setattr(results, "STAGES", (results.Stage(1.5e-3, 2),) * 3)
    monkeypatch.setattr(run, "LEVELS", (20,))
    assert run.main([*argv, "--networks", *tiny]) == 0
    runs = results.load(tmp_path / "out")
    for name in tiny:
        assert {run["row"] for run in runs.values()} >= {name, f"{name}_wrapped"}
        # Of which stage depends on the last bits of two steps.
        (found,) = [r for r in runs.values() if r["row"] == f"{name}_only_wrapped"]
        recipe = results.find_recipe(found)
        assert recipe["data.source"] == "photos"
        assert recipe["model"]["name"] == name
        assert found["held_out"] == pytest.approx(found["curve"]["psnr"][0], abs=5)
