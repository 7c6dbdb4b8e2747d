"""Where the image sets are: $SEVNET_DATA, or shared/data beside the project."""

import functools
import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def image_sets() -> Path:
    default = ROOT.parent / "shared" / "data"
    folder = Path(os.environ.get("SEVNET_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no image sets at {folder}; set SEVNET_DATA")
    return folder


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
