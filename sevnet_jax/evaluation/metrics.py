"""Scores by the protocol "rgb8": what is compared are the pixels of an 8-bit file."""

import numpy as np

PEAK = 255.0


def to_rgb8(image: np.ndarray) -> np.ndarray:
    """Returns [0, 1] floats as uint8: clamp, scale, round."""
    if not np.isfinite(image).all():
        raise ValueError("the image holds NaN or infinity, which no pixel can show")
    return np.round(np.clip(image, 0, 1) * PEAK).astype(np.uint8)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the PSNR in dB of two uint8 images, all channels jointly."""
    if a.dtype != np.uint8 or b.dtype != np.uint8 or a.shape != b.shape:
        raise ValueError(
            f"need two uint8 images of one shape, got {a.dtype} {a.shape} "
            f"and {b.dtype} {b.shape}"
        )
    error = np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(PEAK**2 / error))
