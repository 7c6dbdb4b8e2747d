"""A weights file is checked before it is used."""

import json
import struct

import chex
import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file, save_file

import sevnet_jax
from sevnet_jax import create_model, weights
from sevnet_jax.weights import load_named, load_weights, save_weights

MODEL = {"name": "sevnet_s", "width": 8, "blocks": [1], "bottleneck": 1}


def read_metadata(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length])["__metadata__"]


def rewrite(path, target, change_arrays=None, change_metadata=None, digest=True):
    arrays, metadata = load_file(path), read_metadata(path)
    if change_arrays:
        change_arrays(arrays)
    if change_metadata:
        change_metadata(metadata)
    if digest:
        metadata.pop("sha256")
        metadata["sha256"] = weights._digest(arrays, metadata)
    save_file(arrays, target, metadata)
    return target


def test_a_translator_is_no_denoiser():
    with pytest.raises(ValueError, match="translator_s is a translator"):
        sevnet_jax.load("translator_s")


def test_a_folder_does_not_hide_the_weights_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "sevnet_s").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_named("sevnet_s").config["name"] == "sevnet_s"
    with pytest.raises(ValueError, match=r"has no weights\.safetensors"):
        load_named(tmp_path / "sevnet_s")


def test_what_was_saved_comes_back(tmp_path, draw_params):
    model = create_model(**MODEL)
    params = draw_params(model, np.zeros((1, 8, 8, 3), np.float32))
    save_weights(tmp_path / "w.safetensors", params, MODEL, {"steps": 7})
    loaded = load_weights(tmp_path / "w.safetensors")
    chex.assert_trees_all_equal(loaded.params, params)
    assert loaded.model == model
    assert loaded.provenance == {"steps": 7}


def test_params_that_are_not_finite_are_not_saved(tmp_path):
    params = {"params": {"head": {"kernel": np.array([1.0, np.nan], np.float32)}}}
    with pytest.raises(ValueError, match="head/kernel is not finite"):
        save_weights(tmp_path / "w.safetensors", params, MODEL, {})
    assert not any(tmp_path.iterdir())


HEAD = "params/head/kernel"


@pytest.mark.parametrize(
    ("arrays", "metadata", "digest", "message"),
    [
        (lambda a: a.update({HEAD: a[HEAD] + 1}), None, False, "is damaged"),
        (
            None,
            lambda m: m.update(model=m["model"].replace("sevnet_s", "sevnet_s ")),
            True,
            "an unknown model",
        ),
        (None, lambda m: m.update(provenance="{}"), False, "is damaged"),
        (lambda a: a.pop(HEAD), None, True, f"lacks {HEAD}"),
        (
            lambda a: a.update(extra=np.zeros(2, np.float32)),
            None,
            True,
            "contains extra, which the model does not have",
        ),
        (
            lambda a: a.update({HEAD: a[HEAD][:1].copy()}),
            None,
            True,
            "the model has float32",
        ),
        (
            lambda a: a.update({HEAD: a[HEAD].astype(np.float64)}),
            None,
            True,
            "is float64",
        ),
        (
            lambda a: a.update({HEAD: np.full_like(a[HEAD], np.inf)}),
            None,
            True,
            "not finite",
        ),
        (None, lambda m: m.pop("format"), True, "not written by sevnet_jax"),
        (None, lambda m: m.pop("model"), True, "an unknown model"),
        (None, lambda m: m.pop("sha256"), False, "is damaged"),
        (None, lambda m: m.update(provenance="[]"), True, "an unknown model"),
        (
            None,
            lambda m: m.update(model='{"name": "resnet"}'),
            True,
            "an unknown model",
        ),
    ],
)
def test_files_that_are_wrong_are_refused(
    weights_file, tmp_path, arrays, metadata, digest, message
):
    path = rewrite(weights_file, tmp_path / "w.safetensors", arrays, metadata, digest)
    with pytest.raises(ValueError, match=message):
        load_weights(path)


def test_every_flipped_bit_of_the_values_is_noticed(weights_file, tmp_path):
    data = bytearray(weights_file.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    for position in np.linspace(8 + length, len(data) - 1, 20).astype(int):
        flipped = bytearray(data)
        flipped[position] ^= 4
        path = tmp_path / "w.safetensors"
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="is damaged"):
            load_weights(path)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_files_are_refused(weights_file, tmp_path, keep):
    path = tmp_path / "w.safetensors"
    path.write_bytes(weights_file.read_bytes()[:keep])
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        load_weights(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no weights file"):
        load_weights(tmp_path / "none")


def test_a_config_that_does_not_run_any_more_costs_no_weights(
    weights_file, monkeypatch
):
    """They need it only for parts that are not the package's own."""

    def fail(*_, **__):
        raise ValueError("config mine.py: No module named 'gone'")

    monkeypatch.setattr(weights, "recall", fail)
    assert load_weights(weights_file).params
    monkeypatch.setattr(weights, "create_model", fail)
    with pytest.raises(ValueError, match=r"unknown model.*No module named 'gone'"):
        load_weights(weights_file)


def test_a_disk_without_room_is_an_error_of_the_system(tmp_path, monkeypatch):
    def fail(*_):
        raise safetensors.SafetensorError("Error while serializing: no space")

    monkeypatch.setattr(weights, "save_file", fail)
    params = {"params": {"a": np.zeros(3, np.float32)}}
    with pytest.raises(OSError, match=r"cannot write .*no space"):
        save_weights(tmp_path / "w.safetensors", params, {}, {})
    assert not list(tmp_path.iterdir())
