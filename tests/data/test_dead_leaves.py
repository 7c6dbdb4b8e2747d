"""Drawn images are reproducible, and have the statistics of photographs."""

import itertools

import numpy as np
import pytest

from sevnet_jax.data import dead_leaves


@pytest.fixture(scope="module")
def drawn():
    return [dead_leaves.render(128, seed=(0, i)) for i in range(12)]


def spectral_slope(image: np.ndarray) -> float:
    """The exponent of power over frequency: about -2.4 for photographs."""
    grey = image.astype(np.float64).mean(-1)
    side = len(grey)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    edges = np.geomspace(4 / side, 0.4, 10)
    bands = [
        power[(frequency >= low) & (frequency < high)].mean()
        for low, high in itertools.pairwise(edges)
    ]
    return np.polyfit(np.log(edges[1:]), np.log(bands), 1)[0]


def test_an_image_is_a_function_of_its_seed():
    again = [dead_leaves.render(96, seed=s) for s in ((3, 5), (3, 5), (5, 3), (3, 6))]
    np.testing.assert_array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])
    assert not np.array_equal(again[0], again[3])


@pytest.mark.parametrize("size", [1, 8, 31, 128])
def test_any_size_can_be_drawn(size):
    image = dead_leaves.render(size, seed=0)
    assert image.shape == (size, size, 3)
    assert image.dtype == np.uint8


def test_power_falls_with_frequency_as_in_photographs(drawn):
    slopes = [spectral_slope(image) for image in drawn]
    assert np.mean(slopes) == pytest.approx(-2.4, abs=0.35)


def test_colours_are_correlated_but_not_grey(drawn):
    pixels = np.concatenate([image.reshape(-1, 3) for image in drawn])
    correlation = np.corrcoef(pixels, rowvar=False)[np.triu_indices(3, 1)]
    assert correlation.min() > 0.5
    assert correlation.max() < 0.99


def test_the_range_is_used_and_little_is_clipped(drawn):
    pixels = np.stack(drawn)
    assert pixels.std() > 25
    assert np.mean((pixels == 0) | (pixels == 255)) < 0.15


def test_edges_are_as_sharp_as_a_pixel(drawn):
    """Some neighbours differ by more than 0.3 of the range, with nothing between."""
    for image in drawn:
        step = np.abs(np.diff(image.astype(int), axis=1)).max(-1)
        assert np.quantile(step, 0.999) > 75


def test_radii_follow_the_power_law():
    """Where every leaf is in sight alike, the density is r^-3: P(R > 2 r) = 1/4."""
    side = 10**6
    radii = dead_leaves._radii(np.random.RandomState(0), 4.0, side, 100_000)
    assert np.mean(radii > 8) == pytest.approx(1 / 4, abs=0.01)
    assert np.mean(radii > 40) == pytest.approx(1 / 100, abs=0.003)
