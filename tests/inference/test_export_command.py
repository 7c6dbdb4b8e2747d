"""export.py: what a program says of itself, and one line for what cannot be one."""

import contextlib
import json
import sys

import jax
import numpy as np
import onnxruntime
import pytest

from sevnet_jax import create_model
from sevnet_jax.inference import export
from sevnet_jax.inference.automatic import CAMERA, WEIGHTS
from sevnet_jax.models import Network, base, register
from sevnet_jax.models.rivals import official
from sevnet_jax.weights import Weights, load_named, load_weights, save_weights


def read_onnx(path):
    about = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    return {k: v if k == "weights_sha256" else json.loads(v) for k, v in about.items()}


def read_stablehlo(path):
    return json.loads(path.read_bytes().rpartition(b"\n")[2])


READ = {"onnx": read_onnx, "stablehlo": read_stablehlo}


@pytest.mark.parametrize("to", READ)
def test_a_program_says_what_it_was_made_of(write_pair, write_program, to):
    translator, denoiser = write_pair()
    about = READ[to](write_program(to, denoiser))
    weights = load_weights(denoiser)
    assert about["weights_sha256"] == weights.sha256
    assert about["model"] == json.loads(json.dumps(weights.config))
    assert about["provenance"] == weights.provenance
    assert (about["multiple"], about["reach"]) == (2, weights.model.reach)
    assert about["versions"]["jax"] == jax.__version__
    path = write_program(to, denoiser, "--translator", str(translator))
    about = READ[to](path)
    assert about["model"]["translator"]["name"] == "translator_s"
    assert about["provenance"]["denoiser"]["sha256"] == weights.sha256
    assert b"sevnet_jax/models" not in path.read_bytes()  # where it is installed


def test_the_weights_for_camera_noise_leave(tmp_path, capsys):
    path = tmp_path / "camera.stablehlo"
    argv = ["--to", "stablehlo", "--noise", "camera", "-o", str(path)]
    assert export.main(argv) == 0, capsys.readouterr().err
    found = read_stablehlo(path)["weights_sha256"]
    assert found == load_named(CAMERA["colour"]).sha256
    assert found != load_named(WEIGHTS["colour"]).sha256  # what leaves without it


@pytest.fixture
def complain(tmp_path, capsys):
    """A function that runs a bad command and returns its one line."""

    def run(*args, to="onnx"):
        out = tmp_path / "bad" / "program"
        code = export.main(["--to", to, "-o", str(out), *map(str, args)])
        error = capsys.readouterr().err
        assert (code, error.count("\n")) == (2, 1)
        assert not out.parent.exists()
        return error

    return run


def test_bad_use_is_one_line(complain, write_weights, write_pair, tmp_path):
    assert "there are no weights 'nope'" in complain("--weights", "nope")
    assert "invalid choice: 'torch'" in complain(to="torch")
    (tmp_path / "file").touch()
    assert "cannot write the program" in complain("-o", tmp_path / "file" / "x.onnx")
    assert "ending of a weights file; use .onnx" in complain(
        "-o", "weights.safetensors"
    )
    for other in ("--translator", "--weights"):
        error = complain("--noise", "camera", other, "x")
        assert "leave out the others" in error
    translator, _ = write_pair()
    assert "is a translator" in complain("--weights", translator)
    assert "pass it as --weights" in complain("--translator", translator)
    file = write_weights("w", centre="none")
    error = complain("--weights", file, "--centre", "input")
    assert "this SEVNet does not" in error
    error = complain("--weights", file, "--translator", "translator_s")
    assert "the translator was trained for the denoiser" in error
    assert "not a translator" in complain("--translator", file)


class Ramp(Network):
    """A network that makes a table for the size it sees."""

    def __call__(self, x):
        return x * np.linspace(0, 1, x.shape[1], dtype="float32").reshape(1, -1, 1, 1)


def test_networks_that_cannot_leave_are_named(
    complain, draw_params, tmp_path, monkeypatch
):
    monkeypatch.setattr(base, "_PRESETS", dict(base._PRESETS))
    register("ramp", Ramp)

    def write(**config):
        image = np.zeros((1, 8, 8, 3), np.float32)
        params = draw_params(create_model(**config), image)
        save_weights(tmp_path / "w.safetensors", params, config, {})
        return "--weights", tmp_path / "w.safetensors"

    relu = {"name": "unet_relu_xs", "width": 4, "blocks": []}
    assert "normalization='none', gate='relu'" in complain(*write(**relu))
    assert "got NormalizationWrapper" in complain(*write(**relu, wrapped=True))
    assert "got Ramp; --to stablehlo takes" in complain(*write(name="ramp"))
    assert "ramp depends on the size" in complain(*write(name="ramp"), to="stablehlo")


def test_without_the_package_it_says_what_to_install(
    complain, write_weights, monkeypatch
):
    monkeypatch.delattr("sevnet_jax.inference.onnx_graph", raising=False)
    monkeypatch.delitem(sys.modules, "sevnet_jax.inference.onnx_graph", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    error = complain("--weights", write_weights("w"))
    assert 'pip install "sevnet_jax[export]"' in error


@pytest.mark.slow
def test_the_rivals_of_the_page_leave_and_the_others_are_refused(draw_params, project):
    left = []
    for name in official.list_originals():
        model = create_model(f"{name}_xs")
        side = model.multiple
        params = draw_params(model, np.zeros((1, side, side, 3), np.float32))
        weights = Weights(model, params, {"name": name}, {}, "")
        with contextlib.suppress(ValueError):
            export.to_stablehlo(weights, False)
            left.append(name)
    page = (project / "docs" / "export.md").read_text().lower()
    assert f"| {', '.join(sorted(left))} | no | yes |" in page
