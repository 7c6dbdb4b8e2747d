"""Image files to pixels: 8 bit through Pillow, 16 bit at full precision."""

from pathlib import Path
from typing import BinaryIO

import numpy as np

_PNG = b"\x89PNG\r\n\x1a\n"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_HEAD_BYTES = 25  # a PNG's bit depth is its byte 24


def _to_rgb(pixels: np.ndarray) -> np.ndarray:
    """Grey to colour; alpha dropped."""
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[-1] not in (1, 2, 3, 4):
        raise ValueError(f"shape {pixels.shape} is not an image's")
    if pixels.shape[-1] < 3:
        pixels = np.repeat(pixels[..., :1], 3, -1)
    return np.ascontiguousarray(pixels[..., :3])


def _read_16bit(file: BinaryIO, head: bytes) -> np.ndarray | None:
    """Returns the pixels of a 16-bit PNG or TIFF, which Pillow cuts to 8; else None."""
    if head[:8] == _PNG and head[24:25] == b"\x10":
        import imagecodecs

        return imagecodecs.png_decode(file.read())
    if head[:4] in _TIFF:
        import tifffile

        with tifffile.TiffFile(file) as tiff:
            page = tiff.pages[0]
            if page.dtype == np.uint16 and page.photometric.name in (
                "MINISBLACK",
                "RGB",
            ):
                pixels = page.asarray()
                planes_first = page.axes.startswith("S")
                return np.moveaxis(pixels, 0, -1) if planes_first else pixels
        file.seek(0)
    return None


def decode(file: BinaryIO) -> np.ndarray:
    """Returns the pixels of an open file [H, W, 3], uint8 or uint16."""
    from PIL import Image

    head = file.read(_HEAD_BYTES)
    file.seek(0)
    pixels = _read_16bit(file, head)
    if pixels is None:
        with Image.open(file) as image:
            if image.mode == "F":
                raise ValueError("pixels are floats, of unknown range")
            if image.mode.startswith("I"):  # 16-bit grey of other formats, e.g. PGM
                pixels = np.asarray(image).astype(np.uint16)
            else:
                pixels = np.asarray(image.convert("RGB"))
    return _to_rgb(pixels)


def read(path: str | Path) -> np.ndarray:
    """Returns the pixels of the file at `path` [H, W, 3], uint8 or uint16."""
    with open(path, "rb") as file:
        return decode(file)


def read_size(path: str | Path) -> tuple[int, int]:
    """Returns height and width from the file's head, without decoding it."""
    from PIL import Image

    with open(path, "rb") as file:
        if file.read(4) in _TIFF:
            import tifffile

            with tifffile.TiffFile(path) as tiff:
                return tiff.pages[0].imagelength, tiff.pages[0].imagewidth
    with Image.open(path) as image:
        return image.height, image.width


def extensions() -> set[str]:
    """Returns the endings, with dot, of the files Pillow can read."""
    from PIL import Image

    return {
        e for e, kind in Image.registered_extensions().items() if kind in Image.OPEN
    }


def to_float(pixels: np.ndarray) -> np.ndarray:
    """Returns uint8 or uint16 pixels as float32 in [0, 1]."""
    scale = np.float32(np.iinfo(pixels.dtype).max)
    return pixels.astype(np.float32) / scale
