"""`eval.py table`: files, exit codes, and mistakes."""

import json
import re

import numpy as np
import pytest
from PIL import Image

import eval as command
from sevnet_jax import metrics


@pytest.fixture
def run(tmp_path, capsys):
    """A function (*argv) -> exit code, output, errors; results go to tmp_path/out."""

    def call(*argv):
        code = command.main([*map(str, argv), "--out", str(tmp_path / "out")])
        return code, *capsys.readouterr()

    return call


def test_a_table_is_written_in_every_form(run, photos, tmp_path, write_weights):
    argv = ("table", "--data", photos, "--noise", "gaussian:20", "speckle:90")
    argv = (*argv, "--weights", write_weights("mine"), "--method", "noisy", "wavelet")
    code, printed, _ = run(*argv)
    assert code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    files = ("table.txt", "table.md", "table.tex", "table.json", "scores.csv")
    assert names == set(files)
    assert (tmp_path / "out" / "table.txt").read_text() == printed
    content = json.loads((tmp_path / "out" / "table.json").read_text())
    assert list(content["methods"]) == ["noisy", "wavelet", "mine"]
    assert len(content["methods"]["mine"]["weights_sha256"]) == 64
    assert len(content["scores"]) == 2 * 2 * 3
    before = {name: (tmp_path / "out" / name).read_bytes() for name in files}
    run(*argv)
    assert before == {name: (tmp_path / "out" / name).read_bytes() for name in files}


def test_real_pairs_are_scored(run, tmp_path):
    folder = tmp_path / "PolyU"
    folder.mkdir()
    for kind, value in (("real", 110), ("mean", 100)):
        pixels = np.full((16, 16, 3), value, np.uint8)
        Image.fromarray(pixels).save(folder / f"x_{kind}.png")
    code, printed, _ = run("table", "--pairs", folder, "--method", "noisy")
    assert code == 0
    assert "28.13 / " in printed  # 20 log10(255 / 10)
    assert re.search(r"SEVNet\+NT \(paper\) +37.60 / 0.9557\n", printed)


def test_a_corrupt_image_is_exit_code_1(run, photos):
    (photos / "a.png").write_bytes(b"no image")
    code, _, error = run("table", "--data", photos, "--method", "noisy")
    assert code == 1
    assert "skipped photos/a.png" in error
    assert "1 images were skipped" in error


def test_a_new_metric_is_a_function_and_a_line(run, photos, tmp_path, monkeypatch):
    def measure_gap(pixels, reference):
        return float(np.abs(pixels.astype(float) - reference.clean).mean())

    monkeypatch.setitem(metrics.METRICS, "gap", metrics.Metric(measure_gap, 1))
    argv = ("--data", photos, "--method", "noisy", "--noise", "speckle:90")
    code, printed, _ = run("table", *argv)
    assert code == 0
    assert "PSNR / SSIM / GAP" in printed
    header, *rows = (tmp_path / "out" / "scores.csv").read_text().splitlines()
    assert header.endswith(",psnr,ssim,gap")
    mean = np.mean([float(row.split(",")[-1]) for row in rows])
    assert f" / {mean:.1f}" in printed


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["table"], "give --data FOLDER"),
        (["table", "--data", "/none"], "no folder '/none'"),
        (["table", "--data", "{empty}"], "no images in"),
        (["table", "--data", "{photos}", "--noise", "x"], "choose from gaussian:"),
        (["table", "--data", "{photos}", "--method", "x"], "choose from noisy, auto"),
        (["table", "--data", "{photos}", "--weights", "x"], "there are no weights 'x'"),
        (["table", "--data", "{photos}", "--weights", "{photos}"], "is it finished"),
        (["table", "--pairs", "{photos}"], "no pairs in"),
        (["study"], "eval.py study has moved: run python -m studies.ablation.report"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, photos, tmp_path, argv, words):
    (tmp_path / "empty").mkdir()
    places = {"photos": photos, "empty": tmp_path / "empty"}
    code, _, error = run(*(word.format(**places) for word in argv))
    assert code == 2
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_one_line(run, photos, tmp_path):
    (tmp_path / "out").write_text("")
    code, _, error = run("table", "--data", photos, "--method", "noisy")
    assert code == 2
    assert "results need a folder" in error
    assert error.count("\n") == 1


def test_grey_is_another_set(run, photos, tmp_path, monkeypatch):
    photos = photos.rename(tmp_path / "Kodak24")  # of which the paper has numbers
    argv = ("table", "--data", photos, "--noise", "speckle:90", "--method", "noisy")
    _, colour, _ = run(*argv)
    assert "paper" in colour
    code, grey, errors = run(*argv, "--grey")
    assert code == 0
    assert "Kodak24 in grey, 2 images" in grey
    assert "paper" not in grey
    assert "done already" not in errors


def test_auto_names_the_weights_that_it_chooses_from(run, photos, tmp_path):
    argv = ("table", "--data", photos, "--noise", "gaussian:20", "--method", "auto")
    assert run(*argv)[0] == 0
    content = json.loads((tmp_path / "out" / "table.json").read_text())
    assert "sevnet_s_grey" in content["methods"]["auto"]["weights_sha256"]
