"""PSNR is computed on the pixels of an 8-bit file."""

import math

import numpy as np
import pytest

from sevnet_jax import metrics


def test_one_grey_level_off_everywhere_is_48_13_db():
    a = np.full((5, 7, 3), 100, np.uint8)
    assert metrics.psnr(a, a + 1) == pytest.approx(20 * math.log10(255), abs=1e-9)


def test_channels_are_pooled_before_the_logarithm():
    a = np.zeros((4, 4, 3), np.uint8)
    b = a.copy()
    b[..., 0] = 3  # error 9 in a third of the values
    assert metrics.psnr(a, b) == pytest.approx(10 * math.log10(255**2 / 3), abs=1e-9)


def test_equal_images_are_infinitely_close():
    a = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert metrics.psnr(a, a) == math.inf


def test_difference_does_not_wrap_around():
    a, b = np.zeros((2, 2, 3), np.uint8), np.full((2, 2, 3), 255, np.uint8)
    assert metrics.psnr(a, b) == metrics.psnr(b, a) == 0


def test_rgb8_clamps_and_rounds():
    values = np.array([-1, 0, 0.49 / 255, 0.51 / 255, 254.6 / 255, 1, 7], np.float32)
    np.testing.assert_array_equal(metrics.to_rgb8(values), [0, 0, 0, 1, 255, 255, 255])


def test_every_8bit_value_survives_the_round_trip():
    pixels = np.arange(256, dtype=np.uint8)
    as_float = pixels.astype(np.float32) / 255
    np.testing.assert_array_equal(metrics.to_rgb8(as_float), pixels)


def test_other_kinds_of_arrays_are_refused():
    a = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match="float32"):
        metrics.psnr(a, a.astype(np.float32))
    with pytest.raises(ValueError, match=r"\(3, 4, 3\)"):
        metrics.psnr(a, a[1:])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_gets_no_score(bad):
    image = np.zeros((4, 4, 3), np.float32)
    image[0, 0, 0] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        metrics.to_rgb8(image)


def test_integers_are_no_floats():
    with pytest.raises(ValueError, match=r"need floats in \[0, 1\], got uint8"):
        metrics.to_rgb8(np.ones((8, 8, 3), np.uint8))
