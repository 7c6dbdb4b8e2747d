"""The weights that ship: small, documented, trained as the product claims."""

import pytest

import sevnet_jax
from sevnet_jax.inference.denoiser import TRANSLATOR
from sevnet_jax.weights import load_named, load_partner

MOST_BYTES = 16 * 10**6
TEST_SETS = ("kodak", "cbsd68", "polyu", "sidd")


@pytest.fixture(scope="module")
def bundled():
    return sevnet_jax.load().weights


def test_they_are_small(project):
    files = list((project / "sevnet_jax" / "bundled").glob("*.safetensors"))
    assert files
    assert all(path.stat().st_size <= MOST_BYTES for path in files)


def find_data(recipe):
    """The data of a recipe; those of the first weights had no sections."""
    return recipe.get("data", recipe)


def find_sources(recipe):
    watch = recipe.get("watch", {"source": recipe.get("validation_source")})
    return find_data(recipe)["source"], watch["source"]


@pytest.fixture(scope="module")
def recipes(bundled):
    """Of the weights, of what they were started from, and so on."""
    found, past = [], bundled.provenance
    while past:
        found.append(past["recipe"])
        past = past.get("start")
    return found


@pytest.fixture(scope="module")
def translator():
    return load_named(TRANSLATOR)


def test_the_translator_is_for_these_weights(translator, bundled):
    assert translator.provenance["denoiser_sha256"] == bundled.sha256
    assert load_partner(translator).sha256 == bundled.sha256
    assert sevnet_jax.load(translator=TRANSLATOR).weights.model.channels == 3


def test_the_translator_saw_camera_noise_on_training_photos(translator):
    recipe = translator.provenance["recipe"]
    assert find_data(recipe)["noise"] == "isp"
    for source in find_sources(recipe):
        assert "/" not in source
        assert not any(name in source.lower() for name in TEST_SETS)


def test_they_saw_weak_gaussian_noise_only(recipes):
    for recipe in recipes:
        assert find_data(recipe)["noise"] == "gaussian:5-20"
        assert not find_data(recipe)["clip"]


def test_they_saw_no_test_image(recipes):
    for recipe in recipes:
        for source in find_sources(recipe):
            assert not any(name in source.lower() for name in TEST_SETS)


def test_they_tell_nobody_where_they_were_made(recipes):
    for recipe in recipes:
        assert not any("/" in source for source in find_sources(recipe))


def test_the_card_has_their_hashes(bundled, translator, project):
    card = (project / "docs" / "weights.md").read_text()
    assert bundled.sha256 in card
    assert translator.sha256 in card


@pytest.mark.parametrize("name", [None, TRANSLATOR])
def test_they_keep_the_law_exactly(name, rng):
    """With trained weights as with random ones."""
    denoise = sevnet_jax.load(translator=name)
    image = rng.uniform(size=(48, 40, 3)).astype("float32")
    restored = denoise(image)
    for exponent in (-20, -1, 3, 25):
        scale = image.dtype.type(2.0**exponent)
        assert (denoise(image * scale) == restored * scale).all()
