"""A run may start from weights, and its own weights tell from which."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest
from PIL import Image

from sevnet_jax.training import workdir
from sevnet_jax.training.export import export_weights, load_start
from sevnet_jax.training.loop import train
from sevnet_jax.training.recipe import Data, Optimizer, Recipe, Watch
from sevnet_jax.training.step import create_state
from sevnet_jax.training.workdir import read_start
from sevnet_jax.weights import load_named, load_weights


@pytest.fixture
def recipe(tmp_path, rng):
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(photos / "a.png")
    return Recipe(
        model={"name": "sevnet_s", "width": 4, "blocks": ()},
        data=Data(source=str(photos), batch_size=2, patch_size=16),
        watch=Watch(source=str(photos), images=1, size=16),
        steps=1,
    )


def test_a_run_goes_on_from_the_weights_of_another(recipe, tmp_path):
    train(recipe, tmp_path / "first")
    file = tmp_path / "first" / "weights.safetensors"
    first = load_weights(file)
    again = dataclasses.replace(
        recipe,
        init_weights=str(file),
        seed=5,
        optimizer=Optimizer(learning_rate=1e-9, ema_decay=0.0),
    )
    train(again, tmp_path / "second")
    second = load_weights(tmp_path / "second" / "weights.safetensors")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-8),
        first.params,
        second.params,
    )
    assert second.provenance["start"]["sha256"] == first.sha256
    assert second.provenance["start"]["recipe"]["seed"] == 0
    assert second.provenance["recipe"]["init_weights"] == file.name  # without its path


def test_what_is_changed_on_the_way_is_told(recipe, tmp_path):
    other = tmp_path / "others"
    shutil.copytree(recipe.data.source, other)
    train(recipe, tmp_path / "run")
    data = dataclasses.replace(recipe.data, source=str(other))
    longer = dataclasses.replace(recipe, steps=2, data=data)
    train(longer, tmp_path / "run", accept_changes=True)
    longest = dataclasses.replace(longer, steps=3)
    train(longest, tmp_path / "run", accept_changes=True)
    shutil.rmtree(tmp_path / "others")  # and the history names no folders above it
    data = dataclasses.replace(longest.data, source=recipe.data.source)
    last = dataclasses.replace(longest, steps=4, data=data)
    train(last, tmp_path / "run", accept_changes=True)
    train(last, tmp_path / "run")  # and the history is no change
    found = load_weights(tmp_path / "run" / "weights.safetensors").provenance
    assert found["history"] == [
        {"step": 1, "before": {"data.source": "photos", "steps": 1}},
        {"step": 2, "before": {"steps": 2}},
        {"step": 3, "before": {"data.source": "others", "steps": 3}},
    ]


def test_the_history_tells_which_weights_were_replaced(recipe, tmp_path):
    state = jax.device_put(create_state(recipe.build_model(), recipe))
    history = [{"step": 1, "before": {"sha256.denoiser": "abc", "denoiser": "/a/d"}}]
    export_weights(tmp_path / "w.safetensors", state, recipe, history=history)
    (found,) = load_weights(tmp_path / "w.safetensors").provenance["history"]
    assert found["before"] == {"sha256.denoiser": "abc", "denoiser": "d"}


def test_what_a_run_began_from_cannot_be_changed(recipe, tmp_path):
    for seed in (0, 1):
        train(dataclasses.replace(recipe, seed=seed), tmp_path / str(seed))
    names = [str(tmp_path / name / "weights.safetensors") for name in "01"]
    first, second = (dataclasses.replace(recipe, init_weights=n) for n in names)
    train(first, tmp_path / "run")
    before = (tmp_path / "run" / "config.json").read_text()
    with pytest.raises(
        ValueError,
        match=r"cannot go on with this: init_weights was .*; sha256\.init_weights was",
    ):
        train(second, tmp_path / "run", accept_changes=True)
    assert (tmp_path / "run" / "config.json").read_text() == before
    moved = shutil.copy(names[0], tmp_path / "moved.safetensors")
    same = dataclasses.replace(recipe, init_weights=str(moved))
    train(same, tmp_path / "run", accept_changes=True)


@pytest.mark.parametrize("recorded", [True, False])  # early runs did not
@pytest.mark.parametrize("file_is", ["gone", "changed", "there"])
def test_a_run_goes_on_without_what_it_began_from(
    recipe, tmp_path, file_is, recorded, caplog
):
    train(recipe, tmp_path / "first")
    file = tmp_path / "first" / "weights.safetensors"
    second = dataclasses.replace(recipe, init_weights=str(file), seed=5)
    run, sha256 = tmp_path / "run", load_weights(file).sha256
    train(second, run)
    begun = load_weights(run / "weights.safetensors").provenance["start"]
    kept = shutil.copy(file, tmp_path / "kept.safetensors")
    if file_is == "gone":
        file.unlink()
    if file_is == "changed":
        train(dataclasses.replace(recipe, seed=1), tmp_path / "other")
        shutil.copy(tmp_path / "other" / "weights.safetensors", file)
    if not recorded:
        (run / "start.json").unlink()
    lost = not recorded and file_is != "there"
    train(dataclasses.replace(second, steps=2), run, accept_changes=True)
    found = load_weights(run / "weights.safetensors").provenance
    assert (found["step"], found["start"]) == (2, {"sha256": sha256} if lost else begun)
    assert begun["sha256"] == sha256
    assert ("the hash only" in caplog.text) == lost
    # Back again, it is known again.
    shutil.copy(kept, file)
    assert read_start(run, second) == begun


def test_what_makes_another_structure_is_no_checkpoint(recipe, tmp_path, monkeypatch):
    """The list of such settings has none that could go on."""
    train(recipe, tmp_path / "run")
    fixed = workdir.FIXED
    monkeypatch.setattr(workdir, "FIXED", ())
    for key in fixed:
        name = key.removeprefix("optimizer.")
        value = 0.0 if getattr(recipe.optimizer, name) else 0.5
        optimizer = dataclasses.replace(recipe.optimizer, **{name: value})
        other = dataclasses.replace(recipe, optimizer=optimizer, steps=2)
        with pytest.raises(ValueError, match=r"checkpoint|do not match"):
            train(other, tmp_path / "run", accept_changes=True)


def test_without_a_file_the_seed_decides(recipe):
    assert load_start(recipe) is None


def test_weights_of_another_model_are_refused(recipe):
    bundled = dataclasses.replace(recipe, init_weights="sevnet_s")
    with pytest.raises(ValueError, match=r"the model has"):
        load_start(bundled)
    missing = dataclasses.replace(recipe, init_weights="none.safetensors")
    with pytest.raises(ValueError, match=r"no weights 'none.safetensors'"):
        load_start(missing)


def test_a_grey_network_starts_as_the_colour_network_sees_grey(rng):
    grey = Recipe(
        model={"name": "sevnet_s", "channels": 1},
        data=Data(source="dead_leaves"),
        init_weights="sevnet_s",
    )
    start = load_start(grey)
    colour = load_named("sevnet_s")
    assert start.sha256 == colour.sha256  # of the file, for the provenance
    image = rng.random((1, 16, 16, 1), np.float32)
    seen = jax.jit(colour.model.apply)(colour.params, np.repeat(image, 3, -1))
    restored = jax.jit(grey.build_model().apply)(start.params, image)
    np.testing.assert_allclose(restored, seen.mean(-1, keepdims=True), atol=2e-6)
