"""SSIM against a plain oracle, scikit-image, and known values."""

import numpy as np
import pytest

from sevnet_jax import metrics


def oracle(a, b):
    """Every window by itself, as the definition reads."""
    offsets = np.arange(11) - 5
    line = np.exp(-(offsets**2) / (2 * 1.5**2))
    window = np.outer(line, line)
    window /= window.sum()
    values = []
    for channel in range(a.shape[-1]):
        for i in range(a.shape[0] - 10):
            for j in range(a.shape[1] - 10):
                x = a[i : i + 11, j : j + 11, channel].astype(np.float64)
                y = b[i : i + 11, j : j + 11, channel].astype(np.float64)
                mx, my = (window * x).sum(), (window * y).sum()
                vx = (window * (x - mx) ** 2).sum()
                vy = (window * (y - my) ** 2).sum()
                cov = (window * (x - mx) * (y - my)).sum()
                values.append(
                    (2 * mx * my + 6.5025)
                    * (2 * cov + 58.5225)
                    / ((mx**2 + my**2 + 6.5025) * (vx + vy + 58.5225))
                )
    return np.mean(values)


@pytest.mark.parametrize("shape", [(11, 11, 3), (17, 13, 3), (12, 30, 1)])
def test_ssim_is_its_definition(rng, shape):
    a = rng.integers(0, 256, shape, np.uint8)
    b = np.clip(a + rng.normal(size=shape) * 20, 0, 255).astype(np.uint8)
    assert metrics.ssim(a, b) == pytest.approx(oracle(a, b), abs=1e-9)


@pytest.mark.parametrize("level", [2, 20, 90])
def test_ssim_and_psnr_are_those_of_scikit_image(rng, level):
    from skimage import metrics as others

    rows, columns = np.mgrid[:70, :90]
    smooth = np.stack([rows * 2, columns * 2, rows + columns], -1)
    a = np.clip(smooth, 0, 255).astype(np.uint8)
    b = np.clip(a + rng.normal(size=a.shape) * level, 0, 255).astype(np.uint8)
    _, full = others.structural_similarity(
        a,
        b,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        data_range=255,
        channel_axis=-1,
        full=True,
    )
    valid = full[5:-5, 5:-5].mean()
    assert metrics.ssim(a, b) == pytest.approx(valid, abs=1e-6)
    theirs = others.peak_signal_noise_ratio(a, b, data_range=255)
    assert metrics.psnr(a, b) == pytest.approx(theirs, abs=1e-6)


def test_a_reference_serves_many_images(rng):
    clean, first, second = rng.integers(0, 256, (3, 20, 24, 3), np.uint8)
    reference = metrics.Reference(clean)
    for image in (first, second, first):
        assert reference.ssim(image) == metrics.ssim(image, clean)
        assert reference.psnr(image) == metrics.psnr(image, clean)


def test_equal_images_score_one(rng):
    a = rng.integers(0, 256, (20, 20, 3), np.uint8)
    assert metrics.ssim(a, a) == pytest.approx(1)
    assert metrics.ssim(a, 255 - a) < 0


def test_images_below_the_window_are_refused():
    a = np.zeros((10, 20, 3), np.uint8)
    with pytest.raises(ValueError, match="11 pixels per side"):
        metrics.ssim(a, a)
