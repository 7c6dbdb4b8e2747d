"""The bundled samples are what they say, and the demo shows them."""

import numpy as np
import pytest
from PIL import Image

import eval as command
import sevnet_jax
from sevnet_jax import images, metrics
from sevnet_jax.data import noise
from sevnet_jax.evaluation.commands import demo
from sevnet_jax.inference.denoiser import Denoiser

pytestmark = pytest.mark.optimized


@pytest.fixture(scope="module")
def samples(project):
    return demo.find_samples(project / "samples")


def test_there_are_four_noises(samples):
    assert [law for _, law, _, _ in samples] == [
        "gaussian:20",
        "variant2",
        "isp",
        "speckle:90",
    ]


def test_noisy_samples_are_made_of_the_clean_ones(samples):
    for _, law, noisy, clean in samples:
        image = images.to_float(images.read_pixels(clean))
        expected = metrics.to_rgb8(noise.sample_for_test(law, image, seed=0))
        found = images.read_pixels(noisy).astype(int)
        # JPEG and libm may round another way on another machine.
        assert np.abs(found - expected).mean() < 0.01, law


def test_the_demo_writes_table_and_picture(project, tmp_path):
    table = demo.restore_samples(
        lambda image: image, project / "samples", tmp_path / "demo.png"
    )
    assert len(table.splitlines()) == 6
    assert "speckle:90" in table
    with Image.open(tmp_path / "demo.png") as picture:
        assert picture.size == (4 * 264 + 8, 2 * 282 + 8)


# What `make demo` prints, dB: of the noisy sample, and of the restored one.
SCORES = {
    "gaussian:20": (22.22, 35.13),
    "variant2": (13.55, 28.88),
    "isp": (24.54, 33.76),
    "speckle:90": (13.70, 28.03),
}


@pytest.fixture(scope="module")
def denoise():
    return sevnet_jax.load()


def read(sample):
    return [images.read_pixels(file) for file in sample[2:]]


def test_the_bundled_weights_score_as_make_demo_prints(samples, denoise):
    for sample in samples:
        law, (noisy, clean) = sample[1], read(sample)
        found = metrics.psnr(noisy, clean), metrics.psnr(denoise(noisy), clean)
        assert found == pytest.approx(SCORES[law], abs=0.01), law


def test_fast_tiles_are_as_close_as_the_documents_say(samples, denoise):
    """docs/performance.md: 0.0008 rms and 0.018 at most under speckle 90."""
    (noisy,) = (read(sample)[0] for sample in samples if sample[1] == "speckle:90")
    noisy = noisy.astype(np.float32) / 255
    tiled = Denoiser(denoise.weights, tile_pixels=160 * 160)
    error = np.abs(tiled(noisy, fast=True) - denoise(noisy))
    assert 0 < np.sqrt(np.mean(error**2)) < 0.0008
    assert error.max() < 0.018


def test_missing_samples_are_one_line(tmp_path, capsys):
    assert command.main(["demo", "--samples", str(tmp_path)]) == 2
    assert "no samples in" in capsys.readouterr().err
