"""What happens to a photo after the camera: JPEG."""

import io

import numpy as np
from PIL import Image

from sevnet_jax.data import patches

QUALITY_RANGE = (60, 100)


def draw_quality(draw) -> int:
    """Returns a quality of QUALITY_RANGE, both ends included."""
    low, high = QUALITY_RANGE
    return low + patches.pick(draw.uniform((), 0, 1), high - low + 1)


def compress(image: np.ndarray, quality: int) -> np.ndarray:
    """Returns float32 [H, W, 1 or 3] in [0, 1] as it is read from a JPEG file."""
    pixels = np.round(image * 255).astype(np.uint8)
    if pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    read = np.asarray(Image.open(buffer), np.float32) / 255
    return read.reshape(image.shape)
