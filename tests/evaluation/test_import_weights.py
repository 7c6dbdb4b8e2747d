"""Official weights become ours, and are used like ours."""

import json
import re
import sys
import types

import jax
import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from sevnet_jax import images
from sevnet_jax.evaluation.commands import main
from sevnet_jax.inference import command as denoise
from sevnet_jax.models import create_model
from sevnet_jax.models.rivals import official
from sevnet_jax.weights import load_weights

HYPER = {
    "width": 4,
    "enc_blk_nums": [1],
    "middle_blk_num": 1,
    "dec_blk_nums": [1],
}


@pytest.fixture(scope="module")
def state():
    """What an original would have saved: official keys, layouts and names."""
    rng = np.random.default_rng(0)
    network = official.build("nafnet", HYPER)
    shapes = official.list_keys(network)
    return {
        key: (0.1 * rng.normal(size=shape)).astype(np.float32)
        for key, shape in shapes.items()
    }


@pytest.fixture
def hyper(tmp_path):
    path = tmp_path / "hyper.json"
    path.write_text(json.dumps(HYPER))
    return ["--model", "nafnet", "--hyper", str(path)]


def test_imported_weights_are_used_like_ours(state, hyper, tmp_path, rng):
    save_file(state, tmp_path / "official.safetensors")
    out = tmp_path / "ours.safetensors"
    argv = ["import", str(tmp_path / "official.safetensors"), *hyper, "-o", str(out)]
    assert main(argv) == 0
    weights = load_weights(out)
    assert weights.provenance["imported"]["file"] == "official.safetensors"
    assert weights.model == official.build("nafnet", HYPER)
    expected = official.convert(weights.model, state)
    jax.tree.map(np.testing.assert_array_equal, weights.params, expected)
    (tmp_path / "set").mkdir()
    photo = tmp_path / "set" / "a.png"
    Image.fromarray(rng.integers(0, 256, (16, 20, 3), np.uint8)).save(photo)
    assert denoise.main([str(photo), "--weights", str(out), "--quiet"]) == 0
    argv = ["table", "--data", str(tmp_path / "set"), "--weights", str(out)]
    argv += ["--noise", "speckle:60", "--limit", "1", "--out", str(tmp_path / "table")]
    assert main(argv) == 0


def test_files_of_pytorch_go_through_its_restricted_loader(
    state, hyper, tmp_path, monkeypatch
):
    """A stand-in for PyTorch, which is not installed here."""

    class Tensor:
        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        float = detach

        def numpy(self):
            return self.array

    def load(path, map_location, weights_only):
        assert weights_only is True
        return {"params": {k: Tensor(v) for k, v in state.items()}, "epoch": 3}

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(load=load))
    (tmp_path / "a.pth").write_bytes(b"x")
    out = tmp_path / "ours.safetensors"
    assert main(["import", str(tmp_path / "a.pth"), *hyper, "-o", str(out)]) == 0
    expected = official.convert(official.build("nafnet", HYPER), state)
    jax.tree.map(np.testing.assert_array_equal, load_weights(out).params, expected)


def fail_to_load(path, map_location, weights_only):
    raise RuntimeError("Unsupported global: posix.system\nand more")


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda s, f: s.pop("intro.bias"), "lack intro.bias"),
        (lambda s, f: s.update(extra=np.zeros(3)), "has no extra, but the weights do"),
        (
            lambda s, f: s.update({"intro.bias": np.zeros(9)}),
            "intro.bias has the shape",
        ),
        (lambda s, f: f.write_bytes(b"none"), "is not a complete safetensors file"),
        (lambda s, f: f.unlink(), "there is no file"),
    ],
)
def test_a_wrong_file_is_one_line(state, hyper, tmp_path, capsys, break_it, words):
    file, out = tmp_path / "a.safetensors", tmp_path / "ours.safetensors"
    changed = dict(state)
    save_file(changed, file)
    before = file.read_bytes()
    break_it(changed, file)
    if file.exists() and file.read_bytes() == before:
        save_file(changed, file)
    assert main(["import", str(file), *hyper, "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("torch", "words"),
    [
        (None, "can be read by PyTorch only: pip install torch"),
        (
            types.SimpleNamespace(load=fail_to_load),
            "holds no plain tensors: Unsupported",
        ),
        (types.SimpleNamespace(load=lambda *_, **__: 3), "holds a int, not tensors"),
    ],
)
def test_a_file_that_pytorch_cannot_read_is_one_line(
    hyper, tmp_path, capsys, monkeypatch, torch, words
):
    monkeypatch.setitem(sys.modules, "torch", torch)
    (tmp_path / "a.pth").write_bytes(b"x")
    assert main(["import", str(tmp_path / "a.pth"), *hyper, "-o", "x.safetensors"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("hyper", "words"),
    [
        ('{"depth": 3}', "nafnet has no hyper-parameter 'depth'"),
        ("[]", "holds no hyper-parameters by name"),
        ("{", "holds no JSON"),
        ('{"width": "wide"}', "width of nafnet is of the kind of 32, got 'wide'"),
        ('{"dec_blk_nums": [1]}', "of this NAFNet do not go together"),
        ('{"enc_blk_nums": {}}', "enc_blk_nums of nafnet is of the kind of"),
    ],
)
def test_hyper_parameters_that_no_original_has_are_one_line(
    state, tmp_path, capsys, hyper, words
):
    (tmp_path / "h.json").write_text(hyper)
    save_file(state, tmp_path / "a.safetensors")
    argv = ["import", str(tmp_path / "a.safetensors"), "--model", "nafnet"]
    argv += ["--hyper", str(tmp_path / "h.json"), "-o", str(tmp_path / "x.safetensors")]
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("sadnet_xs", "the weights of this SADNet lack"),
        ("sevnet_xs", "SEVNet has no original"),
        ("nafnett", "unknown model 'nafnett'"),
    ],
)
def test_weights_of_another_network_are_one_line(state, tmp_path, capsys, model, words):
    save_file(state, tmp_path / "a.safetensors")
    out = tmp_path / "x.safetensors"
    argv = ["import", str(tmp_path / "a.safetensors"), "--model", model]
    assert main([*argv, "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_an_image_smaller_than_a_window_is_restored_and_not_scored(
    tmp_path, rng, capsys
):
    hyper = {"embed_dim": 4, "depths": [2], "num_heads": [1]}
    network = official.build("swinir", hyper)
    assert network.window == 8
    shapes = official.list_keys(network)
    state = {key: rng.normal(size=shape, scale=0.1) for key, shape in shapes.items()}
    save_file(state, tmp_path / "a.safetensors")
    (tmp_path / "h.json").write_text(json.dumps(hyper))
    out = tmp_path / "x.safetensors"
    argv = ["import", str(tmp_path / "a.safetensors"), "--model", "swinir"]
    assert main([*argv, "--hyper", str(tmp_path / "h.json"), "-o", str(out)]) == 0
    (tmp_path / "set").mkdir()
    photo = tmp_path / "set" / "a.png"
    Image.fromarray(rng.integers(0, 256, (3, 5, 3), np.uint8)).save(photo)
    restored = tmp_path / "restored.png"
    argv = [str(photo), "--weights", str(out), "--quiet", "-o", str(restored)]
    assert denoise.main(argv) == 0
    assert images.read_size(restored) == (3, 5)
    argv = ["table", "--data", str(tmp_path / "set"), "--weights", str(out)]
    assert main([*argv, "--noise", "speckle:60", "--out", str(tmp_path / "t")]) == 2
    assert "3x5 is too small to be scored" in capsys.readouterr().err


def test_the_file_to_read_is_not_written_over(state, hyper, tmp_path, capsys):
    path = tmp_path / "a.safetensors"
    save_file(state, path)
    before = path.read_bytes()
    assert main(["import", str(path), *hyper, "-o", str(path)]) == 2
    assert "is the file to read" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_only_names_of_the_format_are_written(state, hyper, tmp_path, capsys):
    save_file(state, tmp_path / "a.safetensors")
    argv = ["import", str(tmp_path / "a.safetensors"), *hyper]
    assert main([*argv, "-o", str(tmp_path / "x.pth")]) == 2
    assert "the file to write is a .safetensors file" in capsys.readouterr().err
    argv[-1] = str(tmp_path / "none.json")
    assert main([*argv, "-o", str(tmp_path / "x.safetensors")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_weights_of_another_preset_are_told_which(tmp_path, capsys):
    network = create_model("restormer_gaussian")
    zeros = {
        key: np.zeros(shape, np.float16)
        for key, shape in official.list_keys(network).items()
    }
    assert official.find_presets(create_model("restormer"), zeros) == [
        "restormer_gaussian"
    ]
    save_file({"a": np.zeros(2)}, tmp_path / "a.safetensors")
    argv = ["import", str(tmp_path / "a.safetensors"), "--model", "nafnet"]
    assert main([*argv, "-o", str(tmp_path / "x.safetensors")]) == 2
    assert "fit" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("cgnet", {"GCE_CONVS_nums": 3}, "cgnet has no GCE_CONVS_nums such as 3"),
        ("xformer", {"window_size": ["a"]}, "no window_size such as"),
        ("restormer", {"LayerNorm_type": {}}, "no LayerNorm_type such as"),
        ("restormer", {"num_blocks": [1] * 5}, "num_blocks of restormer has 4 entries"),
        ("swinir", {"upscale": 2}, "built here with upscale=1 only"),
    ],
)
def test_configs_that_no_original_has_are_refused(name, config, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        official.build(name, config)


def test_presets_are_changed_by_official_names():
    grey = official.build("restormer_gaussian", {"inp_channels": 1})
    assert grey == create_model("restormer_gaussian", channels=1)
    assert official.build("grl", {"stripe_groups": (None, None)}) == (
        official.build("grl", {"stripe_groups": [None, None]})
    )
