"""Scores by the protocol "rgb8", which compares the pixels of 8-bit files.

A new metric is a function of (pixels, reference) and a line in METRICS. Tables, score
files and training then report it.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy import ndimage

PROTOCOL = "rgb8"
PEAK = 255.0
WINDOW_TAPS, WINDOW_SIGMA = 11, 1.5  # of SSIM
C1, C2 = 6.5025, 58.5225  # (0.01 * 255)^2, (0.03 * 255)^2


def to_rgb8(image: np.ndarray) -> np.ndarray:
    """Returns [0, 1] floats as uint8: clamp, scale, round."""
    if np.asarray(image).dtype.kind in "biu":
        raise ValueError(f"need floats in [0, 1], got {image.dtype}")
    if not np.isfinite(image).all():
        raise ValueError("the image holds NaN or infinity, which no pixel can show")
    return np.round(np.clip(image, 0, 1) * PEAK).astype(np.uint8)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the PSNR in dB of two uint8 images, all channels jointly."""
    _check_pair(a, b)
    difference = a.astype(np.float64) - b
    error = np.mean(np.square(difference, out=difference))
    return float("inf") if error == 0 else float(10 * np.log10(PEAK**2 / error))


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the structural similarity of two uint8 images [H, W, C].

    Gaussian window, valid region, population covariance, mean over the channels.
    """
    return Reference(b).ssim(a)


class Reference:
    """A clean image to score others against; its own moments are computed once."""

    def __init__(self, clean: np.ndarray):
        self.clean = clean
        self._moments: tuple[np.ndarray, ...] | None = None

    def psnr(self, image: np.ndarray) -> float:
        return psnr(image, self.clean)

    def ssim(self, image: np.ndarray) -> float:
        _check_pair(image, self.clean)
        if image.ndim != 3 or min(image.shape[:2]) < WINDOW_TAPS:
            raise ValueError(
                f"SSIM needs [H, W, C] and {WINDOW_TAPS} pixels per side, got "
                f"{image.shape}"
            )
        if self._moments is None:
            y = _to_planes(self.clean)
            mean = _blur(y)
            self._moments = y, mean, _blur(y * y) - mean**2
        y, mean_y, var_y = self._moments
        x = _to_planes(image)
        mean_x = _blur(x)
        var_x = _blur(x * x) - mean_x**2
        means = mean_x * mean_y
        covariance = _blur(x * y) - means
        luminance = (2 * means + C1) / (mean_x**2 + mean_y**2 + C1)
        structure = (2 * covariance + C2) / (var_x + var_y + C2)
        return float(np.mean(luminance * structure))


@dataclasses.dataclass(frozen=True)
class Metric:
    """How an image scores against its reference; `digits` are shown."""

    measure: Callable[[np.ndarray, Reference], float]
    digits: int


METRICS = {
    "psnr": Metric(lambda pixels, reference: reference.psnr(pixels), 2),
    "ssim": Metric(lambda pixels, reference: reference.ssim(pixels), 4),
}


def measure(pixels: np.ndarray, reference: Reference) -> dict[str, float]:
    """Returns all metrics of a uint8 image."""
    return {name: m.measure(pixels, reference) for name, m in METRICS.items()}


def _to_planes(image: np.ndarray) -> np.ndarray:  # [H, W, C] -> [C, H, W]
    return np.ascontiguousarray(np.moveaxis(image, -1, 0), np.float64)


def _blur(planes: np.ndarray) -> np.ndarray:  # [C, H, W] -> [C, H - 10, W - 10]
    half = WINDOW_TAPS // 2
    offsets = np.arange(WINDOW_TAPS) - half
    taps = np.exp(-(offsets**2) / (2 * WINDOW_SIGMA**2))
    taps /= taps.sum()
    for axis in (1, 2):
        planes = ndimage.correlate1d(planes, taps, axis, mode="constant")
    return planes[:, half:-half, half:-half]


def _check_pair(a: np.ndarray, b: np.ndarray) -> None:
    if a.dtype != np.uint8 or b.dtype != np.uint8 or a.shape != b.shape:
        raise ValueError(
            f"need two uint8 images of one shape, got {a.dtype} {a.shape} and "
            f"{b.dtype} {b.shape}"
        )
