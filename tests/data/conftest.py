"""Images of the public sets as the laws want them."""

import functools

import numpy as np
import pytest


@pytest.fixture(scope="session")
def load_set(image_sets):
    """A function: folder below the image sets -> its images, float32 in [0, 1]."""
    from PIL import Image

    @functools.lru_cache(maxsize=2)
    def load(name: str) -> list[np.ndarray]:
        return [
            np.asarray(Image.open(path).convert("RGB"), np.float32) / 255
            for path in sorted((image_sets / name).iterdir())
        ]

    return load
