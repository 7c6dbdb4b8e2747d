"""A picture: pixels with the metadata of their file."""

import dataclasses
from typing import Any

import numpy as np
from PIL import Image

ORIENTATION = 274  # the tag, in EXIF and in TIFF
ALPHA = (1, 2)  # what a TIFF calls it: multiplied into the colours, or not


class Refused(ValueError):
    """A file that is not read or written, and why."""


@dataclasses.dataclass(frozen=True)
class Picture:
    """Pixels as the file has them, and what else the file says.

    `pixels` is [H, W], [H, W, C] or, for a TIFF of several pages, [N, H, W, C].
    """

    pixels: np.ndarray
    icc: bytes | None = None
    exif: bytes | None = None
    dpi: tuple[float, float] | None = None
    orientation: int = 1  # as in EXIF
    lossy: bool = False  # whether the file had lost something already
    png: bytes = b""  # chunks of a PNG that are copied as they are
    tiff: dict[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""  # what is worth saying about how it was read

    @property
    def last_is_alpha(self) -> bool:
        """Whether the last of 2 or 4 channels is alpha, which a TIFF has to say."""
        extras = self.tiff.get("extrasamples")
        return not self.tiff or bool(extras and extras[-1] in ALPHA)


def find_orientation(value: Any) -> int:
    """Returns the orientation that a file names; upright if it names none."""
    return int(value) if isinstance(value, int) and 1 <= value <= 8 else 1


def orientation_alone(orientation: int) -> bytes:
    """Returns EXIF that says how a picture is turned, and nothing else."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif.tobytes()


def check_size(width: int, height: int, most_pixels: int) -> None:
    if width * height > most_pixels:
        raise Refused(
            f"{width}x{height} is more than {most_pixels} pixels; if this size is "
            "right, raise --max-pixels"
        )
