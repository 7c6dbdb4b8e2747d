"""One photo under a few noises, restored by a few methods, side by side."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, metrics, protocol, scenes, sheet
from sevnet_jax.evaluation.report import format_table
from sevnet_jax.evaluation.sheet import Panel

CROP_SHARE = 4  # of the shorter side
GRID_STEPS = 4  # places that are tried along a crop's own side
# Of larger photos a panel shows every n-th pixel: averages would hide the noise.
LONGEST_SIDE = 1024


@dataclasses.dataclass(frozen=True)
class Crop:
    """A square of the photo, in pixels."""

    left: int
    top: int
    side: int

    def cut(self, image: np.ndarray) -> np.ndarray:
        return image[self.top : self.top + self.side, self.left : self.left + self.side]


@dataclasses.dataclass(frozen=True)
class Picture:
    """What is shown, and its PSNR; the clean photo has none."""

    name: str
    pixels: np.ndarray  # uint8 [H, W, 3]
    psnr: float | None = None


def parse_crop(text: str) -> Crop:
    """Returns the crop of LEFT,TOP,SIDE."""
    try:
        crop = Crop(*(int(part) for part in text.split(",")))
    except (ValueError, TypeError):
        raise ValueError(f"a crop is LEFT,TOP,SIDE in pixels, got {text!r}") from None
    return crop


def check_crop(crop: Crop, height: int, width: int) -> None:
    """Raises ValueError if the crop is not inside of the photo."""
    fits = crop.left + crop.side <= width and crop.top + crop.side <= height
    if crop.side < 1 or min(crop.left, crop.top) < 0 or not fits:
        raise ValueError(
            f"the crop {crop.left},{crop.top},{crop.side} is not inside of the photo, "
            f"which is {width} wide and {height} high"
        )


def find_crop(pixels: np.ndarray) -> Crop:
    """Returns the place on a coarse grid where the clean photo varies most."""
    height, width = pixels.shape[:2]
    side = max(1, min(height, width) // CROP_SHARE)
    step = max(1, side // GRID_STEPS)
    crops = [
        Crop(left, top, side)
        for top in range(0, height - side + 1, step)
        for left in range(0, width - side + 1, step)
    ]
    # Over the pixels of each channel: one flat colour is no variation.
    return max(crops, key=lambda crop: crop.cut(pixels).var((0, 1)).mean())


def restore(
    clean: np.ndarray,
    noises: Sequence[str],
    chosen: Sequence[methods.Method],
    seed: int = 0,
) -> dict[str, list[Picture]]:
    """Returns, for each noise, the clean photo, the noisy one, and the restored ones.

    `clean` is float32 [H, W, 3] in [0, 1]. The noisy one is always there, so that the
    method "noisy" adds nothing.
    """
    for name in noises:
        noise.parse(name)
    rows = {}
    for given in scenes.add_noises(clean, list(dict.fromkeys(noises)), (seed, 0)):
        reference = given.reference.clean
        rows[given.noise] = [
            Picture(f"clean (PSNR: {metrics.PROTOCOL})", reference),
            _score(f"noisy, {given.noise}", given.noisy, reference),
        ]
        for method in chosen:
            if method.restore is not methods.keep_noisy:
                restored = protocol.restore(method, given, "the photo")
                rows[given.noise].append(_score(method.name, restored, reference))
    return rows


def _score(name: str, image: np.ndarray, reference: np.ndarray) -> Picture:
    if not np.isfinite(image).all():
        raise ValueError(f"{name} returned NaN or infinity")
    pixels = metrics.to_rgb8(image)
    return Picture(name, pixels, metrics.psnr(pixels, reference))


def caption(picture: Picture) -> str:
    if picture.psnr is None:
        return picture.name
    return f"{picture.name}  {picture.psnr:.2f} dB"


def format_rows(rows: dict[str, list[Picture]]) -> str:
    """Returns a line for each noise, a column for each method."""
    names = [picture.name for picture in next(iter(rows.values()))[2:]]
    lines = [
        [name, *(f"{picture.psnr:.2f}" for picture in pictures[1:])]
        for name, pictures in rows.items()
    ]
    return format_table(["noise", "noisy", *names], lines)


def draw(rows: dict[str, list[Picture]], crop: Crop, path: str | Path) -> None:
    """Writes the photos, and below each its crop, enlarged by a whole factor."""
    height, width = next(iter(rows.values()))[0].pixels.shape[:2]
    check_crop(crop, height, width)
    every = math.ceil(max(height, width) / LONGEST_SIDE)
    shown = math.ceil(width / every)
    factor = max(1, shown // crop.side)
    # A sheet is mostly seen reduced to a page's width: words and frames grow with it.
    text, stroke = max(15, shown // 20), max(2, shown // 150)
    frame = [-(-value // every) for value in (crop.left, crop.top)]
    frame += [max(1, crop.side // every)] * 2
    lines = []
    for pictures in rows.values():
        photos = [
            Panel(caption(p), p.pixels[::every, ::every], tuple(frame), stroke)
            for p in pictures
        ]
        enlarged = [sheet.enlarge(crop.cut(p.pixels), factor) for p in pictures]
        whole = (0, 0, *enlarged[0].shape[1::-1])
        lines += [photos, [Panel("", pixels, whole, stroke) for pixels in enlarged]]
    sheet.draw(lines, path, text=text, gap=max(8, 3 * stroke))
