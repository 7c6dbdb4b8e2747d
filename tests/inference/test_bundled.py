"""The weights that ship: small, documented, trained as the product claims."""

import pytest

import sevnet_jax

MOST_BYTES = 16 * 10**6


@pytest.fixture(scope="module")
def bundled():
    return sevnet_jax.load().weights


def test_they_are_small(project):
    for path in (project / "sevnet_jax" / "weights").glob("*.safetensors"):
        assert path.stat().st_size <= MOST_BYTES


@pytest.fixture(scope="module")
def recipes(bundled):
    """Of the weights, of what they were started from, and so on."""
    found, past = [], bundled.provenance
    while past:
        found.append(past["recipe"])
        past = past.get("start")
    return found


def test_they_saw_weak_gaussian_noise_only(recipes):
    for recipe in recipes:
        assert recipe["noise"] == "gaussian:5-20"
        assert not recipe["clip"]


def test_they_saw_no_test_image(recipes):
    for recipe in recipes:
        source = recipe["source"].lower()
        assert not any(name in source for name in ("kodak", "cbsd68", "polyu", "sidd"))


def test_they_tell_nobody_where_they_were_made(recipes):
    for recipe in recipes:
        for key in ("source", "validation_source"):
            assert "/" not in recipe[key]


def test_the_card_has_their_hash(bundled, project):
    assert bundled.sha256 in (project / "docs" / "weights.md").read_text()


def test_they_keep_the_law_exactly(bundled, rng):
    """With trained weights as with random ones."""
    denoise = sevnet_jax.load()
    image = rng.uniform(size=(48, 40, 3)).astype("float32")
    restored = denoise(image)
    for exponent in (-20, -1, 3, 25):
        scale = image.dtype.type(2.0**exponent)
        assert (denoise(image * scale) == restored * scale).all()
