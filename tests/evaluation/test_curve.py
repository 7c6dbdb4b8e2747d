"""PSNR against the level: the means, the levels of training, the picture, bad input."""

import json
import math
import time

import numpy as np
import pytest
from PIL import Image

import eval as command
from sevnet_jax import metrics
from sevnet_jax.evaluation import curve_figure, methods, runs, scenes
from sevnet_jax.evaluation.commands import curve
from sevnet_jax.evaluation.curve_figure import Curve
from sevnet_jax.evaluation.protocol import Score
from sevnet_jax.weights import load_weights, save_weights


@pytest.fixture
def trained_on(write_weights, tmp_path):
    """A function that writes weights with a recipe's noise and returns the method."""

    def write(provenance):
        found = load_weights(write_weights("tiny"))
        path = tmp_path / "own.safetensors"
        save_weights(path, found.params, found.config, provenance)
        return methods.open_methods([str(path)])[0]

    return write


@pytest.mark.parametrize(
    ("provenance", "expected"),
    [
        ({"recipe": {"noise": "gaussian:7-33"}}, (7, 33)),
        ({"recipe": {"noise": "gaussian:25"}}, (25, 25)),
        ({"recipe": {"noise": "one_of:gaussian:5-35+gaussian:0-75"}}, (0, 75)),
        ({"recipe": {"noise": "one_of:gaussian:5-35+speckle:60"}}, None),
        ({"recipe": {"noise": "speckle:60"}}, None),
        ({"recipe": {"noise": "a law that is gone"}}, None),
        ({"recipe": {}}, None),
        ({"steps": 0}, None),
    ],
)
def test_the_levels_of_training_are_in_the_weights(trained_on, provenance, expected):
    method = trained_on(provenance)
    noisy = methods.open_classical("noisy")
    assert curve.find_training_range("gaussian", [noisy, method]) == expected
    assert curve.find_training_range("speckle", [noisy, method]) is None
    assert curve.find_training_range("gaussian", [noisy]) is None


@pytest.mark.parametrize(
    ("law", "expected"),
    [("gaussian:7-33", (7, 33)), ("gaussian:25", None), ("speckle:60", None)],
)
def test_levels_that_differ_between_weights_are_no_range(trained_on, law, expected):
    laws = ("gaussian:7-33", law)
    both = [trained_on({"recipe": {"data": {"noise": text}}}) for text in laws]
    assert curve.find_training_range("gaussian", both) == expected


def test_networks_come_first_behind_the_noisy_input(trained_on):
    other = methods.Method("other", methods.keep_noisy, {})
    noisy = methods.open_classical("noisy")
    for chosen in ([other, trained_on({})], [other, noisy, trained_on({})]):
        names = [method.name for method in curve.arrange(chosen)]
        assert names == ["noisy", "own", "other"]


def make_curve(trained=(7, 33), **psnr):
    psnr = psnr or {"noisy": (30.0, 20.0), "ours": (35.0, 28.0), "other": (34.0, 27.9)}
    return Curve("set", "3 images", "gaussian", (10.0, 50.0), psnr, trained)


def test_the_levels_of_training_are_shaded():
    (axes,) = curve_figure.plot(make_curve()).axes
    (span,) = axes.patches
    assert (span.get_x(), span.get_width()) == (7, 26)
    assert any("7 to 33" in text.get_text() for text in axes.texts)
    (axes,) = curve_figure.plot(make_curve(trained=None)).axes
    assert not axes.patches


def test_the_figure_has_a_line_and_a_label_a_method():
    (axes,) = curve_figure.plot(make_curve()).axes
    lines = {tuple(line.get_ydata()): line for line in axes.lines}
    assert set(lines) == {(30, 20), (35, 28), (34, 27.9)}
    assert lines[30, 20].is_dashed()
    assert lines[30, 20].get_color() == curve_figure.GREY
    labels = {text.get_text(): text for text in axes.texts}
    assert {"noisy input", "ours", "other"} <= set(labels)
    for name, values in (("ours", (35, 28)), ("other", (34, 27.9))):
        assert labels[name].get_color() == lines[values].get_color()


def test_infinite_scores_leave_a_gap(tmp_path):
    made = make_curve(noisy=(math.inf, 20.0), ours=(math.nan, math.nan))
    curve_figure.draw(made, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").stat().st_size > 1000
    texts = [text.get_text() for text in curve_figure.plot(made).axes[0].texts]
    assert "noisy input" in texts
    assert "ours" not in texts


def test_labels_are_apart_and_no_further_than_need_be():
    assert curve_figure.spread([1.0, 9.0, 5.0], 1) == [1, 9, 5]
    assert curve_figure.spread([2.0, 1.9, 9.0], 1) == pytest.approx([2.45, 1.45, 9])
    places = np.sort(curve_figure.spread([5.0] * 4 + [6.0], 1))
    assert np.diff(places) == pytest.approx(np.ones(4))
    assert places.mean() == pytest.approx(5.2)


def test_a_curve_is_the_means_in_the_order_of_levels():
    scores = [
        Score("set", image, f"speckle:{level}", method, {"psnr": level + bonus + extra})
        for image, extra in (("a", 0), ("b", 2))
        for level in (5, 7.5)
        for method, bonus in (("noisy", 0), ("ours", 10))
    ]
    result = runs.Run(tuple(scores), (), {"set": 3}, {}, None)
    made = curve.build(result, "speckle", (5, 7.5), None)
    assert made.psnr == {"noisy": (6, 8.5), "ours": (16, 18.5)}
    assert (made.data, made.images) == ("set", "2 of 3 images")


def test_the_command(photos, trained_on, tmp_path, capsys):
    trained_on({"recipe": {"noise": "gaussian:7-33"}})
    (photos / "broken.png").write_bytes(b"no image")
    out, record = tmp_path / "new" / "curve.png", tmp_path / "curve.json"
    argv = ["curve", "--data", str(photos), "--levels", "50", "10", "10"]
    argv += ["--weights", str(tmp_path / "own.safetensors"), "--seed", "3"]
    assert command.main([*argv, "--out", str(out), "--json", str(record)]) == 1
    printed = capsys.readouterr()
    assert "broken.png" in printed.err
    assert "1 images were skipped" in printed.err
    found = json.loads(record.read_text())
    assert found["curve"]["levels"] == [10, 50]
    assert found["curve"]["trained"] == [7, 33]
    assert list(found["curve"]["psnr"]) == ["noisy", "own"]
    expected = np.mean(
        [
            given.reference.psnr(metrics.to_rgb8(given.noisy))
            for scene in scenes.from_folder(photos, ["gaussian:50"], 3)
            if "broken" not in scene.image
            for given in scene.inputs()
        ]
    )
    assert found["curve"]["psnr"]["noisy"][1] == pytest.approx(expected)
    assert f"{expected:.2f}" in printed.out
    assert [path.name for path in out.parent.iterdir()] == ["curve.png"]
    with Image.open(out) as picture:
        assert picture.width == 1500


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("got -5", ["--levels", "10", "-5"]),
        ("got nan", ["--levels", "nan"]),
        ("got inf", ["--levels", "inf"]),
        ("noise 'mixture' has no level", ["--noise", "mixture"]),
        ("noise 'fog' has no level; choose from gaussian", ["--noise", "fog"]),
        ("no folder 'missing'", ["--data", "missing"]),
        ("there are no weights 'none'", ["--weights", "none"]),
        ("cannot draw", ["--out", "a.xyz"]),
        ("cannot write the JSON file", ["--json", "."]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(photos, tmp_path, capsys, words, extra):
    argv = ["curve", "--data", str(photos), "--out", str(tmp_path / "a.png")]
    assert command.main([*argv, *extra]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_the_same_figure_is_the_same_bytes(tmp_path, ending):
    """Dates are tested by waiting: PDF and SVG would hold the second."""
    files = [tmp_path / f"{name}.{ending}" for name in "ab"]
    curve_figure.draw(make_curve(), files[0])
    time.sleep(1.1)
    curve_figure.draw(make_curve(), files[1])
    assert files[0].read_bytes() == files[1].read_bytes()
