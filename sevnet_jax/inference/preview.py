"""What the web page shows of a restored picture, and the file to download.

This module neither restores images nor knows the page, so both can be tested alone.
"""

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sevnet_jax import images
from sevnet_jax.images.files import LONGEST
from sevnet_jax.inference.automatic import AutoDenoiser
from sevnet_jax.inference.clipping import find_white
from sevnet_jax.inference.denoiser import Denoiser, blend
from sevnet_jax.inference.jobs import name_result
from sevnet_jax.inference.restore import Restored, restore_file

SHOWN_ENDING = ".jpg"
SHOWN_PIXELS = 8_000_000  # the file that one takes has all of them


@dataclasses.dataclass(frozen=True)
class Result:
    """A restored picture at every strength, in files below a folder."""

    source: Path
    restored: Restored
    folder: Path
    before: Path
    noisy: np.ndarray  # as `shrink` gives them
    clean: np.ndarray

    def show(self, strength: float) -> tuple[Path, Path]:
        """Returns the files that a browser compares: before and after."""
        shown = blend(self.noisy, self.clean, strength)
        return self.before, write_shown(self.folder, shown, self.restored.picture)

    def save(self, strength: float) -> Path:
        """Returns the file that `denoise.py --strength` would write."""
        target = make_folder(self.folder) / name_result(self.source).name
        self.restored.write(target, strength)
        return target

    def __str__(self) -> str:
        pixels = self.restored.picture.pixels
        height, width = pixels.shape[pixels.ndim == 4 :][:2]
        depth = f"{8 * pixels.dtype.itemsize} bit"
        kind = f"{depth} float" if pixels.dtype.kind == "f" else depth
        facts = (f"{self.source.name}: {width} x {height}", kind)
        return "; ".join((", ".join(facts), *self.restored.notes))


def restore(
    denoiser: Denoiser | AutoDenoiser, source: Path, folder: Path, **options: Any
) -> Result:
    """Returns what becomes of a file; the options are those of `restore_file`."""
    restored = restore_file(denoiser, source, name_result(source), **options)
    picture = restored.picture
    black, white = find_range(picture.pixels)
    noisy, clean = (
        shrink(pixels, black, white) for pixels in (picture.pixels, restored.pixels)
    )
    before = write_shown(folder, noisy, picture)
    return Result(source, restored, folder, before, noisy, clean)


def find_range(pixels: np.ndarray) -> tuple[float, float]:
    """Returns what is shown as black and as white: floats may have any unit."""
    if pixels.dtype.kind == "u":
        return 0.0, find_white(pixels)
    low, high = float(pixels.min()), float(pixels.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return low, high if high > low else low + 1


def shrink(pixels: np.ndarray, black: float, white: float) -> np.ndarray:
    """Returns at most SHOWN_PIXELS of 8 bit, grey or colour, of the first page."""
    if pixels.ndim == 4:
        pixels = pixels[0]
    if pixels.ndim == 3:
        pixels = pixels[..., :3] if pixels.shape[-1] > 2 else pixels[..., 0]
    shown = np.empty(pixels.shape, np.uint8)
    for row, values in enumerate(pixels):  # the whole would be large in float64
        scaled = (values.astype(np.float64) - black) / (white - black)
        shown[row] = np.clip(np.rint(255 * scaled), 0, 255)
    image = Image.fromarray(shown)
    step = math.ceil(math.sqrt(image.height * image.width / SHOWN_PIXELS))
    longest = math.ceil(max(image.size) / LONGEST[SHOWN_ENDING])
    return np.asarray(image.reduce(max(step, longest)))


def write_shown(folder: Path, shown: np.ndarray, picture: images.Picture) -> Path:
    """Returns a new file that browsers can show, upright and in its colours."""
    path = make_folder(folder) / f"shown{SHOWN_ENDING}"
    like = images.Picture(shown, icc=picture.icc, orientation=picture.orientation)
    images.write_picture(path, shown, like)
    return path


def make_folder(inside: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=inside))
