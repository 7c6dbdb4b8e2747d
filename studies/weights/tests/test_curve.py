"""The curve has a run's own validations and earlier weights, by the pixels seen."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.models import create_model
from sevnet_jax.training.recipe import make_config
from sevnet_jax.weights import save_weights
from studies.weights import curve


@pytest.fixture
def run(tmp_path, rng):
    """The files of a run that validated twice."""
    photos, folder = tmp_path / "photos", tmp_path / "run"
    photos.mkdir()
    folder.mkdir()
    pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
    Image.fromarray(pixels).save(photos / "a.png")
    data = {"batch_size": 2, "patch_size": 32}
    watch = {"source": str(photos), "images": 1, "size": 32, "noises": ("gaussian:20",)}
    config = make_config("sevnet_xs", {"width": 4}, data=data, watch=watch)
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    lines = [
        {"step": 5, "kind": "train", "loss": 1.0},
        {"step": 10, "kind": "validation", "psnr gaussian:20": 30.5, "ssim x": 0.9},
        {"step": 20, "kind": "validation", "psnr gaussian:20": 30.75, "ssim x": 0.9},
    ]
    text = "\n".join(map(json.dumps, lines))
    (folder / "metrics.jsonl").write_text(text)
    return folder


def test_points_are_in_order_and_tabulated(run, tmp_path, draw_params, capsys):
    model = create_model("sevnet_xs", width=4)
    params = draw_params(model, np.zeros((1, 8, 8, 3), np.float32))
    file = tmp_path / "early.safetensors"
    save_weights(file, params, {"name": "sevnet_xs", "width": 4}, {})
    document = tmp_path / "page.md"
    document.write_text("<!-- tables: begin -->\nold\n<!-- tables: end -->\n")
    out = tmp_path / "out"
    given = ["--run", str(run), "--before", "1e6", "--weights", f"5e5={file}"]
    assert curve.main([*given, "--out", str(out), "--write", str(document)]) == 0
    points = json.loads((out / "curve.json").read_text())
    step = 2 * 32 * 32
    assert [p["pixels"] for p in points] == [5e5, 1e6 + 10 * step, 1e6 + 20 * step]
    assert [p["from"] for p in points] == ["early", "run", "run"]
    assert [p["psnr"]["gaussian:20"] for p in points[1:]] == [30.5, 30.75]
    assert np.isfinite(points[0]["psnr"]["gaussian:20"])
    assert "30.75" in document.read_text()
    assert (out / "figures" / "curve.png").stat().st_size > 1000
    written = document.read_text()
    assert curve.main(["--out", str(out), "--write", str(document)]) == 0
    assert document.read_text() == written
    capsys.readouterr()


def test_runs_are_added_and_those_of_the_same_name_replaced(run, tmp_path, capsys):
    other = run.with_name("other")
    shutil.copytree(run, other)
    out = tmp_path / "out"

    def add(folder, before):
        given = ["--run", str(folder), "--before", str(before), "--out", str(out)]
        assert curve.main(given) == 0
        points = curve.load(out / "curve.json")
        return [(p["from"], p["pixels"]) for p in points]

    step = 2 * 32 * 32
    first = [("run", 10 * step), ("run", 20 * step)]
    assert add(run, 0) == first
    second = [("other", 15 * step), ("other", 25 * step)]
    mixed = [first[0], second[0], first[1], second[1]]
    assert add(other, 5 * step) == mixed
    moved = [("run", 110 * step), ("run", 120 * step)]
    assert add(run, 100 * step) == [*second, *moved]
    capsys.readouterr()


@pytest.mark.parametrize("change", [{"noises": ["mixture"]}, {"size": 48}])
def test_runs_that_score_otherwise_are_refused(run, tmp_path, capsys, change):
    given = ["--run", str(run), "--out", str(tmp_path / "out")]
    assert curve.main(given) == 0
    before = (tmp_path / "out" / "curve.json").read_text()
    config = json.loads((run / "config.json").read_text())
    config["watch"] |= change
    (run / "config.json").write_text(json.dumps(config))
    capsys.readouterr()
    assert curve.main(given) == 2
    error = capsys.readouterr().err
    assert "scored on 1 of photos, 32x32 under gaussian:20" in error
    assert len(error.splitlines()) == 1
    assert (tmp_path / "out" / "curve.json").read_text() == before


@pytest.mark.parametrize("given", [["--weights", "sevnet_s"], ["--weights", "x=y"]])
def test_what_is_wrong_is_one_line(run, given, capsys):
    assert curve.main(["--run", str(run), *given]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_page_has_the_table_of_its_file():
    file = curve.RESULTS / "curve.json"
    points = curve.load(file)
    page = (curve.RESULTS.parent / "README.md").read_text(encoding="utf-8")
    assert curve.tabulate(points) in page
