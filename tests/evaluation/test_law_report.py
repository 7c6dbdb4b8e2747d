"""The study of a law: what its table says and its figure shows."""

import dataclasses
import json

import numpy as np
import pytest
from flax import linen as nn

import eval as command
from sevnet_jax import create_model, equivariance
from sevnet_jax.equivariance import Part
from sevnet_jax.evaluation.commands import equivariance as law_report
from sevnet_jax.models import Network


def make_study(fn) -> law_report.Study:
    x = np.linspace(-1, 2, 12, dtype="float32")
    scales = (*equivariance.SCALES, *law_report.SWEEP)
    law = equivariance.measure(fn, x, scales)
    whole = Part("", "Function", law, law.holds())
    return law_report.Study(whole, (), () if whole.holds else (whole,))


def test_the_table_tells_exact_from_wrong_and_from_overflow():
    exact = law_report.format_study(make_study(lambda x: x / 7)).splitlines()
    assert exact[3].split()[6:14] == ["="] * 8
    assert exact[3].endswith("yes")
    assert exact[-1].startswith("The law holds")
    with np.errstate(over="ignore"):
        square = law_report.format_study(make_study(lambda x: x**5)).splitlines()
    assert square[3].split()[6] == "1e+00"
    assert "overflow" in square[3]
    assert square[-1] == "  the whole network (Function): measured degree 5.000"


def test_the_figure_puts_exact_results_on_the_floor_and_wrong_ones_above(
    tmp_path, monkeypatch
):
    figures = []
    monkeypatch.setattr(
        law_report, "save_figure", lambda figure, path: figures.append(figure)
    )
    studies = {"good": make_study(lambda x: x / 7), "bad": make_study(np.tanh)}
    law_report.plot_studies(studies, tmp_path / "figure.png")
    good, rounded, bad, _ = (line.get_ydata() for line in figures[0].axes[0].lines[:4])
    assert max(good) == 1e-9
    assert 1e-9 < max(rounded) < 1e-6
    assert min(bad) > 1e-3


def test_a_study_serves_json_without_nan():
    model = create_model("sevnet_s", width=4, blocks=(), bottleneck=1, gate="elu")
    study = law_report.study(model, size=4, seed=0)
    result = json.loads(json.dumps(law_report.to_json(study), allow_nan=False))
    assert not result["holds"]
    assert result["culprits"] == ["bottleneck_block_0/activate"]


@pytest.mark.parametrize("centre", ["image", "constant"])
def test_a_network_that_breaks_the_law_itself_is_named(centre):
    model = create_model("sevnet_s", width=4, blocks=(), bottleneck=0, centre=centre)
    text = law_report.format_study(law_report.study(model, size=4, seed=0))
    assert ("  the whole network (SEVNet)" in text) == (centre == "constant")


def make_part(path: str, degree: float) -> Part:
    law = equivariance.measure(lambda x: x, np.ones(3, "float32"), (2.0,))
    return Part(path, "Norm", dataclasses.replace(law, degree=degree), False)


def test_parts_that_differ_in_their_numbers_share_a_line():
    degrees = {"a_1/norm_2": -0.5, "a_12/norm_2": 10, "a_3/norm_2": 2, "tail_1": 0.25}
    parts = [make_part(path, degree) for path, degree in degrees.items()]
    assert law_report.format_culprits([*parts, parts[-1]]) == [
        "a_*/norm_2 (Norm, 3 parts): measured degree -0.500 to 10.000",
        "tail_1 (Norm): measured degree 0.250",  # called twice, one part
    ]


class Biased(Network):
    """An affine map: its bias is all that breaks the law."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x)


def test_without_biases_a_network_is_judged_by_the_rest():
    with_them, without = (
        law_report.study(Biased(), 4, seed=0, biases=biases) for biases in (True, False)
    )
    assert [part.kind for part in with_them.culprits] == ["Dense"]
    assert without.whole.holds
    assert law_report.to_json(without)["biases"] is False


def test_the_type_reaches_a_wrapped_network(tmp_path, monkeypatch):
    wrapped = create_model("sevnet_xs", wrapped=True, remat=True)
    seen = []

    def study(model, *_):
        seen.append(model)
        raise ValueError("enough")

    monkeypatch.setattr(law_report, "create_model", lambda name: wrapped)
    monkeypatch.setattr(law_report, "study", study)
    given = ["equivariance", "--model", "w", "--dtype", "bfloat16"]
    assert command.main([*given, "--out", str(tmp_path / "law.png")]) == 2
    assert (seen[0].inner.dtype, seen[0].inner.remat) == ("bfloat16", False)


def test_the_flag_leaves_biases_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(law_report, "create_model", lambda name: Biased())
    given = ["equivariance", "--model", "biased", "--size", "4"]
    given += ["--out", str(tmp_path / "law.png")]
    assert command.main(given) == 1
    assert command.main([*given, "--no-biases"]) == 0
    assert "without biases" in capsys.readouterr().out
