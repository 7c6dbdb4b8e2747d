"""The weights that ship: small, documented, trained as the product claims."""

import numpy as np
import pytest

import sevnet_jax
from sevnet_jax.inference.automatic import CAMERA, TRANSLATOR, WEIGHTS
from sevnet_jax.weights import find_bundled, load_named

MOST_BYTES = 16 * 10**6
TEST_SETS = ("kodak", "cbsd68", "polyu", "sidd")
NAMES = sorted(find_bundled())
FOR_WHITE_NOISE = {*NAMES} - {*CAMERA.values(), TRANSLATOR}


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def weights(name):
    return load_named(name)


@pytest.fixture(scope="module")
def recipes(weights):
    return list_recipes(weights)


def list_recipes(weights):
    """Of the weights, of what they were started from, and so on."""
    found, past = [], weights.provenance
    while past:
        found.append(past["recipe"])
        past = past.get("start")
    return found


def find_data(recipe):
    """The data of a recipe; those of the first weights had no sections."""
    return recipe.get("data", recipe)


def find_sources(recipe):
    watch = recipe.get("watch", {"source": recipe.get("validation_source")})
    return find_data(recipe)["source"], watch["source"]


def test_what_is_chosen_is_there():
    used = {*WEIGHTS.values(), *CAMERA.values()}
    assert used | {"sevnet_s", TRANSLATOR} == set(NAMES)  # two are for the tables
    for kind, channels in (("colour", 3), ("grey", 1)):
        for name in (WEIGHTS[kind], CAMERA[kind]):
            assert load_named(name).model.channels == channels


def test_they_are_small(project, name):
    path = project / "sevnet_jax" / "bundled" / f"{name}.safetensors"
    assert path.stat().st_size <= MOST_BYTES


def test_the_translator_is_for_the_weights_of_the_tables():
    wanted = load_named(TRANSLATOR).provenance["denoiser_sha256"]
    assert wanted == load_named("sevnet_s").sha256


def test_weights_for_white_noise_saw_nothing_else():
    for name in FOR_WHITE_NOISE:
        for recipe in list_recipes(load_named(name)):
            laws = find_data(recipe)["noise"].removeprefix("one_of:").split("+")
            assert {*laws} <= {"gaussian:5-20", "gaussian:0-75", "gaussian:5-35"}
            assert not find_data(recipe)["clip"]


def test_those_of_the_tables_saw_weak_noise_only():
    for recipe in list_recipes(load_named("sevnet_s")):
        assert find_data(recipe)["noise"] == "gaussian:5-20"


def test_they_saw_no_test_image(recipes):
    for recipe in recipes:
        for source in find_sources(recipe):
            assert not any(name in source.lower() for name in TEST_SETS)


def test_they_tell_nobody_where_they_were_made(recipes):
    for recipe in recipes:
        assert not any("/" in source for source in find_sources(recipe))


def test_the_card_has_their_hashes(weights, project):
    assert weights.sha256 in (project / "docs" / "weights.md").read_text()


@pytest.mark.optimized
def test_they_keep_the_law_exactly(name, weights, rng):
    """With trained weights as with random ones."""
    translates = name.startswith("translator")
    denoise = sevnet_jax.load(**{"translator" if translates else "name_or_path": name})
    image = rng.uniform(size=(48, 40, weights.model.channels)).astype(np.float32)
    restored = denoise(image)
    for exponent in (-20, -1, 3, 25):
        scale = image.dtype.type(2.0**exponent)
        assert (denoise(image * scale) == restored * scale).all()
