"""The study of translated noise: known noises have known shapes, and a run of it."""

import json

import jax
import numpy as np
import pytest
import scipy.ndimage
import scipy.stats
from PIL import Image

from eval import main
from sevnet_jax.evaluation import translation
from sevnet_jax.models import create_model
from sevnet_jax.weights import load_weights, save_weights


@pytest.fixture
def white(rng):
    """White Gaussian noise, two images of it, at two levels."""
    return [level * rng.normal(size=(256, 192, 3)) for level in (0.02, 0.1)]


def test_white_gaussian_noise_is_the_ideal(white):
    found = translation.average([translation.measure_noise(e) for e in white])
    np.testing.assert_allclose(
        found.density, translation.gaussian_density(), atol=0.015
    )
    np.testing.assert_allclose(found.spectrum, 1, atol=0.2)  # few bins in the first
    assert found.from_gaussian < 0.02
    assert found.from_white < 0.05
    assert found.deviation == pytest.approx(255 * 0.06, rel=0.02)


def test_the_distance_from_a_gaussian_is_scipys(rng):
    uniform = rng.uniform(-1, 1, size=(256, 256, 3))
    found = translation.measure_noise(uniform)
    grid = scipy.stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    expected = scipy.stats.wasserstein_distance(uniform.ravel() / uniform.std(), grid)
    assert found.from_gaussian == pytest.approx(expected, abs=0.01)
    assert expected > 0.1


def test_blurred_noise_has_its_power_at_low_frequencies(rng):
    blurred = scipy.ndimage.gaussian_filter(
        rng.normal(size=(256, 256, 3)), (1, 1, 0), mode="wrap"
    )
    found = translation.measure_noise(blurred)
    assert found.spectrum[1] > 5
    assert found.spectrum[-1] < 0.1
    # Against the filter's own response, at unit variance.
    frequency = (np.arange(translation.BANDS) + 0.5) / translation.BANDS / 2
    response = np.exp(-((2 * np.pi * frequency) ** 2))
    ratio = found.spectrum[2:20] / response[2:20]
    np.testing.assert_allclose(ratio / ratio.mean(), 1, atol=0.15)


def test_an_image_without_noise_is_said():
    with pytest.raises(ValueError, match="has no noise"):
        translation.measure_noise(np.zeros((8, 8, 3)))


@pytest.fixture
def files(write_weights, draw_params, tmp_path):
    """Weights, a translator for them, and two pairs."""
    denoiser = write_weights("denoiser")
    config = {"name": "translator_s", "width": 4, "blocks": [1], "bottleneck": 0}
    params = draw_params(create_model(**config), np.zeros((1, 8, 8, 3), np.float32))
    provenance = {"denoiser_sha256": load_weights(denoiser).sha256}
    save_weights(tmp_path / "t.safetensors", params, config, provenance)
    rng = np.random.default_rng(0)
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for name in ("a_mean", "a_real", "b_mean", "b_real"):
        pixels = rng.integers(60, 190, (24, 32, 3), np.uint8)
        Image.fromarray(pixels).save(pairs / f"{name}.png")
    return [
        *("--pairs", str(pairs), "--weights", str(denoiser)),
        *("--translator", str(tmp_path / "t.safetensors")),
        *("--out", str(tmp_path / "t.png"), "--json", str(tmp_path / "t.json")),
    ]


def test_a_study_is_drawn_and_written(files, tmp_path, capsys):
    assert main(["translation", *files, "--show", "2", "--crop", "3,2,16"]) == 0
    text = capsys.readouterr().out
    assert "pairs, 2 pairs" in text
    assert "translator and denoiser" in text
    with Image.open(tmp_path / "t.png") as image:
        assert image.width > 1000
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["images"] == 2
    assert set(content["noise"]) == {"noisy", "translated"}


def test_products_are_not_rounded_to_fewer_bits(files, monkeypatch):
    seen = []

    def study(*_):
        seen.append(jax.config.jax_default_matmul_precision)
        raise ValueError("enough")

    monkeypatch.setattr(translation, "study", study)
    assert main(["translation", *files]) == 2
    assert seen == ["highest"]


@pytest.mark.parametrize("damage", ["cut", "none"])
def test_a_bad_pair_is_named(files, tmp_path, capsys, damage):
    path = tmp_path / "pairs" / "b_real.png"
    whole = path.with_name("b_mean.png").read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else whole)
    assert main(["translation", *files]) == 2
    error = capsys.readouterr().err
    assert "b_real.png" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--show", "3"], "--show 3 is out of range"),
        (["--crop", "foo"], "a crop is LEFT,TOP,SIDE"),
        (["--crop", "30,2,16"], "not inside the photo"),
        (["--weights", "sevnet_s"], "was trained for the denoiser"),
        (["--pairs", "nowhere"], "no folder 'nowhere'"),
    ],
)
def test_mistakes_are_one_line(files, capsys, more, words):
    assert main(["translation", *files, *more]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
