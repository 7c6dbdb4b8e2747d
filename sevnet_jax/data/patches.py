"""Cuts patches from images, flips and rotates them. Nothing here is random."""

import numpy as np
from PIL import Image

MOST_ENLARGED = 2.0


def pick(u: float, count: int) -> int:
    """Returns the number in 0..count-1 at which `u` in [0, 1] points."""
    return min(int(u * count), count - 1)


def crop(image: np.ndarray, y: float, x: float, side: int) -> np.ndarray:
    """Returns a window of `side`; y and x in [0, 1] span its possible places."""
    height, width = image.shape[:2]
    top, left = pick(y, height - side + 1), pick(x, width - side + 1)
    return image[top : top + side, left : left + side]


def orient(patch: np.ndarray, flip: bool, turns: int) -> np.ndarray:
    """Returns the patch mirrored left to right if `flip`, then turned by 90 degrees."""
    return np.rot90(patch[:, ::-1] if flip else patch, turns)


def shrink(patch: np.ndarray, factor: int) -> np.ndarray:
    """Returns uint16, each value the rounded mean of factor x factor pixels."""
    if patch.dtype == np.uint8:
        # 255 becomes 65535: no value is rounded. In order: TensorFlow would copy it.
        patch = np.multiply(patch, np.uint16(257), order="C")
    if factor == 1:
        return patch
    side = patch.shape[0] // factor
    blocks = patch.reshape(side, factor, side, factor, -1)
    return np.round(blocks.mean((1, 3), dtype=np.float32)).astype(np.uint16)


def fitting_factor(image: np.ndarray, factor: int, side: int) -> int:
    """Returns `factor`, or the largest below it for which `side` still fits."""
    return max(1, min(factor, min(image.shape[:2]) // side))


def enlargement(u: float) -> float:
    """Returns a factor from 1 to MOST_ENLARGED, at which `u` in [0, 1] points."""
    return 1 + u * (MOST_ENLARGED - 1)


def enlarge(patch: np.ndarray, side: int) -> np.ndarray:
    """Returns a square uint16 patch at a larger side, by the bicubic filter."""
    resized = resize(patch.astype(np.float32), side, side)
    return np.round(np.clip(resized, 0, 65535)).astype(np.uint16)


def resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns float32 [H, W, C] with other sides, by Pillow's bicubic filter."""
    planes = [
        np.asarray(Image.fromarray(p).resize((width, height), Image.Resampling.BICUBIC))
        for p in np.moveaxis(image, -1, 0)
    ]
    return np.stack(planes, -1)
