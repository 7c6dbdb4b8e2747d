"""The command: what it prints, draws and returns, and one line for bad input."""

import argparse
import importlib
import json

import numpy as np
import pytest
from PIL import Image

import eval as command
from sevnet_jax import list_models
from sevnet_jax.evaluation import commands, complexity
from sevnet_jax.evaluation.commands.complexity import list_rows


@pytest.fixture
def config(tmp_path):
    """A function that writes a small model's config and returns its path."""

    def write(**fields):
        model = {
            "name": "sevnet_s",
            "width": 4,
            "blocks": (),
            "bottleneck": 1,
            **fields,
        }
        path = tmp_path / "config.py"
        path.write_text(
            "from ml_collections import ConfigDict\n"
            f"def get_config():\n    return ConfigDict({{'model': {model!r}}})\n"
        )
        return str(path)

    return write


@pytest.mark.slow
def test_complexity_table_has_every_preset_and_the_paper(capsys):
    assert command.main(["complexity", "--no-time"]) == 0
    printed = capsys.readouterr().out
    ours = set(list_models()) - set(list_models("rival"))
    assert all(name in printed for name in ours | set(complexity.PAPER))


def test_complexity_table_has_the_paper_beside_ours(capsys):
    assert set(list_rows()) >= set(list_models()) - set(list_models("rival"))
    assert set(list_rows()) >= set(complexity.PAPER) & set(list_models())
    argv = ["complexity", "--no-time", "--model", "sevnet", "sevnet_xs"]
    assert command.main(argv) == 0
    printed = capsys.readouterr().out
    assert "sevnet_xs" in printed
    assert "31.33  31.32" in printed


def test_complexity_json(capsys):
    names = ["sevnet_xs", "unet_relu_xs"]
    argv = ["complexity", "--json", "--size", "64", "--no-time", "--model", *names]
    assert command.main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in found] == names
    assert all(model["params"] > 0 and model["macs"] > 0 for model in found)


def test_complexity_takes_the_time_unless_told_not_to(capsys, monkeypatch):
    """How it is timed is tested beside the function."""
    monkeypatch.setattr(complexity, "measure_seconds", lambda *_: 0.123)
    argv = ["complexity", "--size", "16", "--model", "sevnet_xs"]
    for more, expected in (([], "123"), (["--no-time"], "-")):
        assert command.main([*argv, *more]) == 0
        assert capsys.readouterr().out.split()[-1] == expected


@pytest.mark.parametrize(
    "name", [n for n in commands.COMMANDS if n not in ("complexity", "import")]
)
def test_results_go_to_a_file_of_the_commands_name(name):
    """Unless told otherwise, and if it is a figure, to one that can be drawn."""
    module = importlib.import_module(f"sevnet_jax.evaluation.commands.{name}")
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    default = parser.get_default("out")
    assert default.removesuffix(".png") == f"runs/{name}"
    assert default.endswith(".png") == (name != "table")


def run_equivariance(config, tmp_path, *more):
    figure = tmp_path / "new" / "figure.png"
    code = command.main(
        ["equivariance", "--config", config, "--size", "8", "--out", str(figure), *more]
    )
    return code, figure


def test_equivariance_of_a_model_that_keeps_the_law(config, tmp_path, capsys):
    code, figure = run_equivariance(config(), tmp_path)
    printed = capsys.readouterr().out
    assert code == 0
    assert "The law holds" in printed
    assert "bottleneck_block_0" in printed
    assert figure.stat().st_size > 1000


def test_equivariance_of_a_broken_model_names_the_culprit(config, tmp_path, capsys):
    code, _ = run_equivariance(config(gate="elu"), tmp_path)
    assert code == 1
    assert "bottleneck_block_0/activate" in capsys.readouterr().out


def test_equivariance_json_in_bfloat16(config, tmp_path, capsys):
    code, _ = run_equivariance(config(), tmp_path, "--json", "--dtype", "bfloat16")
    (result,) = json.loads(capsys.readouterr().out)
    assert code == 0
    assert result["holds"]
    whole = result["whole"]["measurement"]
    assert all(row["bit_exact"] for row in whole["scales"] if row["must_be_exact"])


def test_noise_sheet(tmp_path, capsys, rng):
    photo, sheet = tmp_path / "photo.png", tmp_path / "sheet.png"
    pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(photo)
    assert command.main(["noise", "--image", str(photo), "--out", str(sheet)]) == 0
    with Image.open(sheet) as drawn:
        assert drawn.width > 6 * 30
    photo.write_bytes(photo.read_bytes()[:60])
    for bad in (photo, tmp_path / "missing.png"):
        assert command.main(["noise", "--image", str(bad), "--out", str(sheet)]) == 2
        assert f"cannot read the image '{bad}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "argv"),
    [
        ("no config file 'missing.py'", ["equivariance", "--config", "missing.py"]),
        ("unknown row '9z'", ["equivariance", "--config", "configs/ablations.py:9z"]),
        (
            "cannot write the figure",
            ["noise", "--image", "x", "--out", "eval.py/a.png"],
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys, monkeypatch, project, words, argv
):
    monkeypatch.chdir(project)
    assert command.main(argv) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_wrapped_network_is_studied_as_any_other(config, tmp_path, capsys):
    code, _ = run_equivariance(config(gate="elu", wrapped=True), tmp_path)
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "NormalizationWrapper" in printed
    path = config(gate="elu", wrapped=True, remat=True)
    assert run_equivariance(path, tmp_path, "--dtype", "bfloat16")[0] == 0
    assert run_equivariance(config(gate="elu"), tmp_path)[0] == 1


def test_a_figure_of_an_unknown_format_is_refused(config, capsys):
    argv = ["equivariance", "--config", config(), "--size", "8", "--out", "figure.xyz"]
    assert command.main(argv) == 2
    assert "figure.xyz" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-3", "x", "99999999999"])
def test_a_size_that_is_none_is_refused(capsys, value):
    assert command.main(["complexity", "--size", value]) == 2
    error = capsys.readouterr().err
    assert "a whole number of at least 1" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("argv", [[], ["tabel"], ["table", "--dta", "x"]])
def test_a_wrong_flag_or_command_is_one_line(capsys, argv):
    assert command.main(argv) == 2
    error = capsys.readouterr().err
    assert "see --help" in error
    assert error.count("\n") == 1


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "complexity" in printed
    assert "equivariance" in printed
