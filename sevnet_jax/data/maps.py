"""The three level maps of the speckle variants, in [0, 1] on the image's grid."""

import functools

import numpy as np

GRID = 256
CELL = 32
GAUSSIAN_SEED = 0  # the seed moves the tables by up to 0.5 dB, so it is fixed


def _min_max(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / (values.max() - values.min())


def _sine_cosine() -> np.ndarray:
    x = np.linspace(1, 10, GRID)
    y = np.linspace(1, 20, GRID)[:, None]
    return np.sin(x) + np.cos(y)


def _peaks() -> np.ndarray:
    x = np.linspace(-3, 3, GRID)
    y = x[:, None]
    return (
        3 * (1 - x) ** 2 * np.exp(-(x**2) - (y + 1) ** 2)
        - 10 * (x / 5 - x**3 - y**5) * np.exp(-(x**2) - y**2)
        - 1 / 3 * np.exp(-((x + 1) ** 2) - y**2)
    )


def _gaussian_mix() -> np.ndarray:
    random = np.random.RandomState(GAUSSIAN_SEED)
    corners = np.arange(0, GRID, CELL)
    shape = (len(corners), len(corners))
    # The order of the draws is part of the definition: x, y, then the scales.
    centre_x = corners + random.uniform(0, CELL, shape)
    centre_y = corners[:, None] + random.uniform(0, CELL, shape)
    scale = random.uniform(CELL / 2, CELL, shape)
    x = np.arange(GRID)[:, None, None]
    # A Gaussian splits into its factors along x and y.
    along_x = np.exp(-((x - centre_x) ** 2) / (2 * scale**2))
    along_y = np.exp(-((x - centre_y) ** 2) / (2 * scale**2))
    return np.einsum("yij,xij,ij->yx", along_y, along_x, 1 / (2 * np.pi * scale**2))


_MAPS = {1: _sine_cosine, 2: _peaks, 3: _gaussian_mix}


def _bilinear(size: int) -> np.ndarray:
    """Weights [size, GRID] that resize one axis; pixel centres at half integers."""
    position = np.clip((np.arange(size) + 0.5) * GRID / size - 0.5, 0, GRID - 1)
    return np.maximum(0, 1 - np.abs(position[:, None] - np.arange(GRID)))


@functools.lru_cache(maxsize=16)
def level_map(number: int, height: int, width: int) -> np.ndarray:
    """Returns map 1, 2 or 3 resized to [height, width], float32, read-only."""
    if number not in _MAPS:
        raise ValueError(f"level map {number} does not exist; choose from {[*_MAPS]}")
    grid = _min_max(_MAPS[number]())
    resized = (_bilinear(height) @ grid @ _bilinear(width).T).astype(np.float32)
    resized.setflags(write=False)
    return resized
