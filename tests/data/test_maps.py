"""The level maps have the stated means and orientation at any size."""

import numpy as np
import pytest

from sevnet_jax.data import maps


@pytest.mark.parametrize(("number", "mean"), [(1, 0.540), (2, 0.471), (3, 0.594)])
def test_map_has_the_stated_mean_and_fills_the_range(number, mean):
    grid = maps.level_map(number, 256, 256)
    assert grid.mean() == pytest.approx(mean, abs=0.001)
    assert grid.min() == 0
    assert grid.max() == 1


def test_sine_runs_along_columns_and_cosine_along_rows():
    """cos over [1, 20] has six extrema inside, sin over [1, 10] three."""
    grid = maps.level_map(1, 256, 256).astype(np.float64)
    turns = [np.count_nonzero(np.diff(np.sign(np.diff(grid.mean(a))))) for a in (0, 1)]
    assert turns == [3, 6]


def test_peaks_has_its_known_highest_and_lowest_points():
    """Swapping X and Y, or the sign of Y, moves them."""
    grid = maps.level_map(2, 256, 256)
    row, column = np.unravel_index(grid.argmax(), grid.shape)
    x, y = np.array([column, row]) * 6 / 255 - 3
    np.testing.assert_allclose([x, y], [-0.01, 1.58], atol=0.02)
    row, column = np.unravel_index(grid.argmin(), grid.shape)
    x, y = np.array([column, row]) * 6 / 255 - 3
    np.testing.assert_allclose([x, y], [0.23, -1.63], atol=0.02)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("shape", [(512, 768), (321, 481), (128, 128), (1, 1)])
def test_resized_map_agrees_with_the_grid_at_the_same_place(number, shape):
    resized = maps.level_map(number, *shape)
    assert resized.shape == shape
    assert resized.dtype == np.float32
    grid = maps.level_map(number, 256, 256)
    y, x = (np.array([0.25, 0.5, 0.8])[:, None] * shape).astype(int).T
    centre = [
        (p + 0.5) * 256 / size - 0.5 for p, size in zip((y, x), shape, strict=True)
    ]
    nearest = grid[tuple(np.round(centre).astype(int))]
    np.testing.assert_allclose(resized[y, x], nearest, atol=0.03)


def test_unknown_map_is_named():
    with pytest.raises(ValueError, match="4"):
        maps.level_map(4, 8, 8)


def test_gaussian_mix_is_one_gaussian_a_cell():
    random = np.random.RandomState(0)
    x0, y0 = random.uniform(0, 32, (8, 8)), random.uniform(0, 32, (8, 8))
    scale = random.uniform(16, 32, (8, 8))
    y, x = np.mgrid[:256, :256]
    total = np.zeros((256, 256))
    for i in range(8):
        for j in range(8):
            s = scale[i, j]
            square = (x - 32 * j - x0[i, j]) ** 2 + (y - 32 * i - y0[i, j]) ** 2
            total += np.exp(-square / (2 * s**2)) / (2 * np.pi * s**2)
    expected = (total - total.min()) / (total.max() - total.min())
    np.testing.assert_allclose(maps.level_map(3, 256, 256), expected, atol=1e-6)
