"""The bundled samples are what they say, and the demo shows them."""

import numpy as np
import pytest
from PIL import Image

import eval as command
import sevnet_jax
from sevnet_jax import images, metrics
from sevnet_jax.data import noise
from sevnet_jax.evaluation.commands import demo
from sevnet_jax.inference.denoiser import TRANSLATOR


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
    seen = []

    def restore_real(image):
        seen.append(image)
        return image

    table = demo.restore_samples(
        lambda image: image, restore_real, project / "samples", tmp_path / "demo.png"
    )
    assert len(table.splitlines()) == 6
    assert "speckle:90" in table
    assert len(seen) == 1  # the camera's
    with Image.open(tmp_path / "demo.png") as picture:
        assert picture.size == (4 * 264 + 8, 2 * 282 + 8)


def test_the_bundled_weights_gain_on_every_sample(project):
    """Several dB; on the camera's correlated noise with the translator only."""
    denoise = sevnet_jax.load()
    denoise_real = sevnet_jax.load(translator=TRANSLATOR)

    def find_gain(restore, noisy, clean):
        return metrics.psnr(restore(noisy), clean) - metrics.psnr(noisy, clean)

    for _, law, noisy_file, clean_file in demo.find_samples(project / "samples"):
        noisy, clean = images.read_pixels(noisy_file), images.read_pixels(clean_file)
        if law == demo.CAMERA:
            assert find_gain(denoise_real, noisy, clean) > 6
            assert 0 < find_gain(denoise, noisy, clean) < 3
        else:
            assert find_gain(denoise, noisy, clean) > 8, law


def test_missing_samples_are_one_line(tmp_path, capsys):
    assert command.main(["demo", "--samples", str(tmp_path)]) == 2
    assert "no samples in" in capsys.readouterr().err
