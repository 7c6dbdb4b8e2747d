"""Scores by the protocol "rgb8": what is compared are the pixels of an 8-bit file."""

import numpy as np

PEAK = 255.0
WINDOW_TAPS, WINDOW_SIGMA = 11, 1.5  # of SSIM
C1, C2 = 6.5025, 58.5225  # (0.01 * 255)^2, (0.03 * 255)^2


def to_rgb8(image: np.ndarray) -> np.ndarray:
    """Returns [0, 1] floats as uint8: clamp, scale, round."""
    if not np.isfinite(image).all():
        raise ValueError("the image holds NaN or infinity, which no pixel can show")
    return np.round(np.clip(image, 0, 1) * PEAK).astype(np.uint8)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the PSNR in dB of two uint8 images, all channels jointly."""
    _check_pair(a, b)
    error = np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(PEAK**2 / error))


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the structural similarity of two uint8 images [H, W, C].

    Gaussian window, valid region, population covariance, mean over the channels.
    """
    _check_pair(a, b)
    if a.ndim != 3 or min(a.shape[:2]) < WINDOW_TAPS:
        raise ValueError(
            f"SSIM needs [H, W, C] and {WINDOW_TAPS} pixels a side, got {a.shape}"
        )
    x, y = a.astype(np.float64), b.astype(np.float64)
    mean_x, mean_y = _blur(x), _blur(y)
    var_x = _blur(x * x) - mean_x**2
    var_y = _blur(y * y) - mean_y**2
    covariance = _blur(x * y) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + C1) / (mean_x**2 + mean_y**2 + C1)
    structure = (2 * covariance + C2) / (var_x + var_y + C2)
    return float(np.mean(luminance * structure))


def _blur(x: np.ndarray) -> np.ndarray:  # [H, W, C] -> [H - 10, W - 10, C]
    offsets = np.arange(WINDOW_TAPS) - WINDOW_TAPS // 2
    taps = np.exp(-(offsets**2) / (2 * WINDOW_SIGMA**2))
    taps /= taps.sum()
    for axis in (0, 1):
        kept = x.shape[axis] - WINDOW_TAPS + 1
        x = sum(tap * x.take(range(i, i + kept), axis) for i, tap in enumerate(taps))
    return x


def _check_pair(a: np.ndarray, b: np.ndarray) -> None:
    if a.dtype != np.uint8 or b.dtype != np.uint8 or a.shape != b.shape:
        raise ValueError(
            f"need two uint8 images of one shape, got {a.dtype} {a.shape} "
            f"and {b.dtype} {b.shape}"
        )
