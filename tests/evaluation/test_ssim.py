"""SSIM against a plain oracle and known values."""

import numpy as np
import pytest

from sevnet_jax.evaluation import metrics


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


def test_equal_images_score_one(rng):
    a = rng.integers(0, 256, (20, 20, 3), np.uint8)
    assert metrics.ssim(a, a) == pytest.approx(1)
    assert metrics.ssim(a, 255 - a) < 0


def test_images_below_the_window_are_refused():
    a = np.zeros((10, 20, 3), np.uint8)
    with pytest.raises(ValueError, match="11 pixels a side"):
        metrics.ssim(a, a)
