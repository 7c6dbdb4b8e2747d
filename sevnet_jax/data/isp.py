"""Camera noise: clean -> raw -> noise -> raw -> image, and only the noise is kept.

After Guo et al. (CVPR 2019), as simplified in later work: the camera's response is a
gamma (or a measured curve), its colours are a matrix, and its sensor is a Bayer mosaic
that Malvar-He-Cutler interpolation reads. As in Guo et al.'s code, the output of the
inverse response is treated as sRGB-encoded before the colour matrix. This gives the
noise its stated strength (about 25 dB). NumPy only.
"""

import dataclasses
import functools
from pathlib import Path
from typing import ClassVar

import numpy as np

from sevnet_jax.data import patches, postprocessing
from sevnet_jax.images.pixels import LUMA

GAMMA_RANGE = (1.4, 2.9)
WHITE_BALANCE_RANGE = (0.75, 1.0)
LEAST_SHOT, MOST_SHOT = 1e-4, 1e-2
READ_SLOPE, READ_OFFSET, READ_SPREAD = 2.2, 1.2, 0.26
JPEG_PROBABILITY = 0.5

_XYZ_TO_CAMERA = np.array(
    [
        [1.0234, -0.2969, -0.2266, -0.5625, 1.6328, -0.0469, -0.0703, 0.2188, 0.6406],
        [0.4913, -0.0541, -0.0202, -0.613, 1.3513, 0.2906, -0.1564, 0.2151, 0.7183],
        [0.838, -0.263, -0.0639, -0.2887, 1.0725, 0.2496, -0.0627, 0.1427, 0.5438],
        [0.6596, -0.2079, -0.0562, -0.4782, 1.3016, 0.1933, -0.097, 0.1581, 0.5181],
    ]
).reshape(4, 3, 3)
_RGB_TO_XYZ = np.array(  # linear sRGB, D65
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
# The channel (R 0, G 1, B 2) of each site of a 2x2 tile.
BAYER = np.array(
    [[[0, 1], [1, 2]], [[1, 0], [2, 1]], [[1, 2], [0, 1]], [[2, 1], [1, 0]]]
)


def _srgb_to_linear(encoded: np.ndarray) -> np.ndarray:
    curve = ((encoded + 0.055) / 1.055) ** 2.4
    return np.where(encoded <= 0.04045, encoded / 12.92, curve)


def _linear_to_srgb(light: np.ndarray) -> np.ndarray:
    curve = 1.055 * light ** (1 / 2.4) - 0.055
    return np.where(light <= 0.0031308, 12.92 * light, curve)


def _rgb_to_camera(draw) -> np.ndarray:
    weights = draw.uniform((4,), 0.0, 1.0)
    mixed = np.tensordot(weights / weights.sum(), _XYZ_TO_CAMERA, 1) @ _RGB_TO_XYZ
    # Rows that sum to 1 keep grey grey: the white balance is a step of its own.
    return (mixed / mixed.sum(1, keepdims=True)).astype(np.float32)


def _tile(pattern: np.ndarray, height: int, width: int) -> np.ndarray:
    return np.tile(pattern, (height // 2 + 1, width // 2 + 1))[:height, :width]


def mosaic(image: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """Returns the sensor's reading [H, W]: one channel of `image` a site."""
    sites = _tile(pattern, *image.shape[:2])
    return np.take_along_axis(image, sites[..., None], -1)[..., 0]


def demosaic(raw: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """Returns [H, W, 3] from [H, W] by Malvar, He and Cutler's linear filters."""
    height, width = raw.shape
    # Reflection without the edge pixel keeps the parity of the mosaic.
    padded = np.pad(raw, 2, mode="reflect")

    def at(dy: int, dx: int) -> np.ndarray:
        return padded[2 + dy : 2 + dy + height, 2 + dx : 2 + dx + width]

    near_x, near_y = at(0, -1) + at(0, 1), at(-1, 0) + at(1, 0)
    far_x, far_y = at(0, -2) + at(0, 2), at(-2, 0) + at(2, 0)
    diagonal = at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)
    green = (4 * raw + 2 * (near_x + near_y) - (far_x + far_y)) / 8
    along_row = (5 * raw + 4 * near_x - far_x - diagonal + 0.5 * far_y) / 8
    along_column = (5 * raw + 4 * near_y - far_y - diagonal + 0.5 * far_x) / 8
    opposite = (6 * raw + 2 * diagonal - 1.5 * (far_x + far_y)) / 8

    image = np.empty((height, width, 3), raw.dtype)
    for y in (0, 1):
        for x in (0, 1):
            site = np.s_[y::2, x::2]
            here, beside = pattern[y, x], pattern[y, 1 - x]
            image[site][..., here] = raw[site]
            if here == 1:
                image[site][..., beside] = along_row[site]
                image[site][..., 2 - beside] = along_column[site]
            else:
                image[site][..., 1] = green[site]
                image[site][..., 2 - here] = opposite[site]
    return image


@functools.lru_cache(maxsize=4)
def _load_curves(path: str) -> tuple[np.ndarray, np.ndarray]:
    import scipy.io

    if not Path(path).is_file():
        raise ValueError(f"no response curves at {path!r}")
    try:
        content = scipy.io.loadmat(path)
        light, response = content["I"], content["B"]
        rising = all((np.diff(curves) >= 0).all() for curves in (light, response))
        if light.ndim != 2 or light.shape != response.shape or not rising:
            raise ValueError(
                f"they are {light.shape} and {response.shape}, or decrease"
            )
    except Exception as error:
        raise ValueError(f"{path!r} holds no curves I and B: {error}") from None
    return light.astype(np.float32), response.astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Isp:
    """Noise made in the raw domain of a random camera.

    `curves` names a .mat file of measured responses, in place of the gamma family;
    `shot` sets the shot noise, in place of a draw from `least_shot` on; `jpeg` is the
    chance of JPEG. Grey images become grey scenes, whose photos are then made grey.
    """

    curves: str | None = None
    shot: float | None = None
    least_shot: float = LEAST_SHOT
    jpeg: float = JPEG_PROBABILITY

    numpy_only: ClassVar[bool] = True  # the pipeline calls it outside of its graph

    def __post_init__(self):
        if self.curves is not None:
            _load_curves(self.curves)  # a wrong path fails here, not in training
        if self.shot is not None and not 0 <= self.shot < np.inf:
            raise ValueError(f"isp shot noise must be finite and >= 0, got {self.shot}")
        if not 0 < self.least_shot <= MOST_SHOT:
            raise ValueError(
                f"isp least_shot must be in (0, {MOST_SHOT}], got {self.least_shot}"
            )
        if not 0 <= self.jpeg <= 1:
            raise ValueError(f"isp jpeg is a probability, got {self.jpeg}")

    def __call__(self, clean: np.ndarray, draw) -> np.ndarray:
        if clean.shape[-1] == 1:
            photo = self(np.repeat(clean, 3, -1), draw)
            return photo @ (np.array([LUMA], photo.dtype).T / 2**16)
        if clean.shape[-1] != 3:
            raise ValueError(f"a camera has 1 or 3 channels, got {clean.shape}")
        to_light, to_image = self._response(draw)
        to_camera = _rgb_to_camera(draw)
        from_camera = np.linalg.inv(to_camera)
        pattern = BAYER[patches.pick(draw.uniform((), 0, 1), len(BAYER))]
        red, blue = draw.uniform((2,), *WHITE_BALANCE_RANGE)
        gains = _tile(np.array([red, 1, blue], np.float32)[pattern], *clean.shape[:2])

        def develop(raw: np.ndarray) -> np.ndarray:
            camera = demosaic(raw / gains, pattern)
            light = np.clip(camera @ from_camera.T, 0, 1)
            return to_image(_linear_to_srgb(light))

        light = _srgb_to_linear(to_light(clean))
        raw = mosaic(light @ to_camera.T, pattern) * gains
        noise = self._sigma(raw, draw) * draw.normal(raw.shape)
        # The difference first: without noise it is 0, and the image stays as it is.
        noisy = np.clip(clean + (develop(raw + noise) - develop(raw)), 0, 1)

        quality = postprocessing.draw_quality(draw)
        if draw.uniform((), 0, 1) < self.jpeg:
            noisy = postprocessing.compress(noisy, quality)
        return noisy

    def _response(self, draw):
        if self.curves is None:
            gamma = draw.uniform((), *GAMMA_RANGE)
            return lambda x: x**gamma, lambda light: light ** (1 / gamma)
        light, response = _load_curves(self.curves)
        k = patches.pick(draw.uniform((), 0, 1), len(light))

        def interpolate(values, known, wanted):
            return np.interp(values, known, wanted).astype(np.float32)

        return (
            lambda x: interpolate(x, response[k], light[k]),
            lambda x: interpolate(x, light[k], response[k]),
        )

    def _sigma(self, raw: np.ndarray, draw) -> np.ndarray:
        log_shot = draw.uniform((), np.log(self.least_shot), np.log(MOST_SHOT))
        spread = READ_SPREAD * draw.normal(())
        if self.shot == 0:
            return np.zeros_like(raw)
        if self.shot is not None:
            log_shot = np.log(self.shot)
        read = np.exp(READ_SLOPE * log_shot + READ_OFFSET + spread)
        return np.sqrt(np.exp(log_shot) * np.maximum(raw, 0) + read).astype(raw.dtype)
