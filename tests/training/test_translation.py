"""A translator learns for a denoiser that stays as it is, to the last bit."""

import dataclasses

import chex
import jax
import numpy as np
import pytest
import scipy.stats
from PIL import Image

from sevnet_jax import weights
from sevnet_jax.inference.automatic import load
from sevnet_jax.models import Translated, create_model
from sevnet_jax.training import parallel
from sevnet_jax.training.loop import train
from sevnet_jax.training.objective import Translation, make_objective
from sevnet_jax.training.recipe import Data, Optimizer, Recipe, Watch
from sevnet_jax.training.step import create_state, make_step

TINY = {"width": 4, "blocks": (), "bottleneck": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("translation")


@pytest.fixture(scope="module")
def denoiser(folder, draw_params):
    model = create_model("sevnet_s", **TINY)
    params = draw_params(model, np.zeros((1, 8, 8, 3), np.float32))
    path = folder / "denoiser.safetensors"
    weights.save_weights(path, params, {"name": "sevnet_s", **TINY}, {"recipe": {}})
    return path


@pytest.fixture(scope="module")
def recipe(folder, denoiser):
    photos = folder / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(photos / "a.png")
    return Recipe(
        model={"name": "translator_s", **TINY},
        denoiser=str(denoiser),
        data=Data(source=str(photos), noise="isp", batch_size=2, patch_size=16),
        optimizer=Optimizer(learning_rate=1e-2),
        watch=Watch(source=str(photos), noises=("isp",), images=1, size=16),
        steps=3,
    )


@pytest.fixture(scope="module")
def objective(recipe):
    return make_objective(recipe)


@pytest.fixture(scope="module")
def run(recipe, folder, denoiser):
    """A finished training, in which the denoiser's file has not changed."""
    before = denoiser.read_bytes()
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        train(recipe, folder / "run")
    assert denoiser.read_bytes() == before
    return folder / "run"


def test_only_the_translator_is_trained(recipe, run, denoiser, folder):
    before = weights.load_weights(denoiser)
    file = run / "weights.safetensors"
    trained = weights.load_weights(file)
    fresh = jax.jit(trained.model.init)(
        jax.random.key(recipe.seed, impl="rbg"), np.zeros((1, 32, 32, 3), np.float32)
    )
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max() > 1e-3, trained.params, fresh)
    assert all(jax.tree.leaves(moved))  # the gradient came through the denoiser
    assert trained.provenance["denoiser_sha256"] == before.sha256
    assert trained.provenance["recipe"]["denoiser"] == denoiser.name

    restore = load(denoiser, translator=file)
    image = np.asarray(Image.open(next((folder / "photos").iterdir())))
    assert restore(image).shape == image.shape
    assert (restore(image) != load(denoiser)(image)).any()


def test_the_loss_is_that_of_its_formula(recipe, objective, draw_params, rng):
    """All of it in NumPy and SciPy, but for the networks and the Gaussian's draw."""
    clean, noisy = rng.uniform(size=(2, 2, 16, 16, 3)).astype(np.float32)
    params = draw_params(objective.model, noisy, 1)
    batch = {"clean": clean, "noisy": noisy}
    loss = jax.jit(objective.loss)(params, objective.frozen, batch, 7)
    variables = Translated.join(params, objective.frozen)
    restore = jax.jit(lambda v, x: objective.whole.apply(v, x, method="restore"))
    translated, restored = restore(variables, noisy)
    error = np.asarray(translated, np.float64) - clean
    key = jax.random.fold_in(jax.random.key(recipe.seed), 7)
    ideal = error.std() * np.asarray(jax.random.normal(key, error.shape)) + error.mean()

    def distance(a, b):
        return sum(
            scipy.stats.wasserstein_distance(a[..., c].ravel(), b[..., c].ravel())
            for c in range(3)
        )

    spectra = [np.abs(np.fft.fft2(x, axes=(1, 2))) for x in (error, ideal)]
    expected = np.abs(np.asarray(restored) - clean).mean() + 0.05 * (
        distance(error, ideal) + 0.002 * distance(*spectra)
    )
    assert float(loss) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("which", ["translator", "wrapped"])
def test_what_cannot_be_translated_for_is_said(recipe, tmp_path, draw_params, which):
    config = {"name": "sevnet_s", **TINY, "wrapped": which == "wrapped"}
    image = np.zeros((1, 8, 8, 3), np.float32)
    params = draw_params(create_model(**config), image)
    about = {"denoiser_sha256": "0"} if which == "translator" else {}
    weights.save_weights(tmp_path / "w.safetensors", params, config, about)
    wrong = dataclasses.replace(recipe, denoiser=str(tmp_path / "w.safetensors"))
    with pytest.raises(ValueError, match=which):
        make_objective(wrong)


@pytest.mark.slow
def test_a_translator_goes_on_where_it_was_stopped(recipe, tmp_path):
    constant = Optimizer(learning_rate=1e-2, schedule="constant")
    long = dataclasses.replace(recipe, optimizer=constant)
    short = dataclasses.replace(long, steps=2)
    train(long, tmp_path / "whole")
    train(short, tmp_path / "parts")
    train(long, tmp_path / "parts", accept_changes=True)
    first, second = (
        weights.load_weights(tmp_path / name / "weights.safetensors").params
        for name in ("whole", "parts")
    )
    chex.assert_trees_all_equal(first, second)


@pytest.mark.slow
def test_a_step_leaves_the_denoiser_as_it_is(recipe, objective, rng):
    frozen = jax.device_put(objective.frozen)
    before = jax.tree.map(np.array, frozen)
    step = make_step(objective.loss, recipe, parallel.make_mesh(2))
    state = jax.jit(lambda: create_state(objective.model, recipe))()
    params = jax.tree.map(np.array, state.params)
    clean, noisy = rng.uniform(size=(2, 2, 16, 16, 3)).astype(np.float32)
    for _ in range(2):
        state, report = step(state, {"clean": clean, "noisy": noisy}, frozen)
        assert report["good"]
    chex.assert_trees_all_equal(frozen, before)
    changed = jax.tree.map(lambda a, b: (a != b).any(), state.params, params)
    assert all(jax.tree.leaves(changed))


def test_another_denoiser_under_the_same_name_is_noticed(recipe, run, denoiser):
    original = denoiser.read_bytes()
    other = weights.load_weights(denoiser)
    params = jax.tree.map(lambda a: np.asarray(a) * np.float32(2), other.params)
    try:
        weights.save_weights(denoiser, params, other.config, other.provenance)
        with pytest.raises(ValueError, match=r"sha256\.denoiser was"):
            train(recipe, run)
    finally:
        denoiser.write_bytes(original)


def test_the_random_part_is_a_function_of_seed_and_count(
    recipe, objective, draw_params, rng
):
    assert isinstance(objective, Translation)
    params = draw_params(objective.model, np.zeros((1, 16, 16, 3), np.float32))
    clean, noisy = rng.uniform(size=(2, 2, 16, 16, 3)).astype(np.float32)
    batch = {"clean": clean, "noisy": noisy}
    loss = jax.jit(objective.loss)
    first = loss(params, objective.frozen, batch, 0)
    assert first == loss(params, objective.frozen, batch, 0)
    assert first != loss(params, objective.frozen, batch, 1)
    plain = make_objective(dataclasses.replace(recipe, noise_weight=0.0))
    restored = np.asarray(jax.jit(plain.restore)(params, plain.frozen, noisy))
    expected = np.abs(restored - clean).mean()
    without = jax.jit(plain.loss)(params, plain.frozen, batch, 0)
    assert without == pytest.approx(expected, rel=1e-5)
    assert first > expected


def test_a_translator_serves_its_own_denoiser_only(run, denoiser):
    file = run / "weights.safetensors"
    with pytest.raises(ValueError, match="was trained for the denoiser"):
        load("sevnet_s", translator=file)
    with pytest.raises(ValueError, match="are not a translator"):
        load(denoiser, translator=denoiser)


def test_a_missing_denoiser_is_named(recipe):
    missing = dataclasses.replace(recipe, denoiser="FILE")
    with pytest.raises(ValueError, match="there are no weights 'FILE'"):
        make_objective(missing)
