"""Image files to pixels: 8 bit through Pillow, 16 bit at full precision."""

import struct
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np

_PNG = b"\x89PNG\r\n\x1a\n"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
ORIENTATION, TURNED = 274, (5, 6, 7, 8)  # EXIF's tag; values that swap the sides
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

        _check_size(*struct.unpack(">II", head[16:24]))
        return imagecodecs.png_decode(file.read())
    if head[:4] in _TIFF:
        import tifffile

        with tifffile.TiffFile(file) as tiff:
            page = tiff.pages[0]
            _check_size(page.imagewidth, page.imagelength)
            if page.dtype == np.uint16:
                if page.photometric.name not in ("MINISBLACK", "MINISWHITE", "RGB"):
                    raise ValueError(f"16-bit {page.photometric.name} is not supported")
                pixels = page.asarray()
                if page.photometric.name == "MINISWHITE":
                    pixels = np.iinfo(np.uint16).max - pixels
                planes_first = page.axes.startswith("S")
                return np.moveaxis(pixels, 0, -1) if planes_first else pixels
            if page.dtype not in (np.uint8, np.bool_):
                raise ValueError(f"pixels are {page.dtype}, of unknown range")
        file.seek(0)
    return None


def _ppm_maximum(head: bytes) -> int:
    """The largest value a PPM file announces; 255 if comments push it out of sight."""
    words = head.split()
    return int(words[3]) if len(words) > 3 and words[3].isdigit() else 255


def _check_size(width: int, height: int) -> None:
    """Pillow's guard against bombs, for files that do not go through Pillow."""
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and width * height > 2 * limit:
        raise ValueError(f"{width}x{height} is more than {2 * limit} pixels")


def decode(file: BinaryIO) -> np.ndarray:
    """Returns the pixels of an open file [H, W, 3], uint8 or uint16."""
    from PIL import Image, ImageOps

    head = file.read(_HEAD_BYTES)
    file.seek(0)
    with warnings.catch_warnings():  # a bad file is named once, by who asked for it
        warnings.simplefilter("ignore")
        pixels = _read_16bit(file, head)
        if pixels is not None:
            return _to_rgb(pixels)
        with Image.open(file) as image:
            kind = image.format
            if kind == "PPM" and image.mode == "RGB" and _ppm_maximum(head) > 255:
                raise ValueError("16-bit colour PPM is not supported; make it a PNG")
            if image.mode.startswith("I;16") or (image.mode, kind) == ("I", "PPM"):
                return _to_rgb(np.asarray(image).astype(np.uint16))
            if image.mode in ("F", "I"):
                raise ValueError("pixels are floats or 32 bit, of unknown range")
            return _to_rgb(np.asarray(ImageOps.exif_transpose(image).convert("RGB")))


def read(path: str | Path) -> np.ndarray:
    """Returns the pixels of the file at `path` [H, W, 3], uint8 or uint16."""
    with open(path, "rb") as file:
        return decode(file)


def read_named(path: str | Path) -> np.ndarray:
    """Returns what `read` does; whatever goes wrong, the ValueError names the file."""
    try:
        return read(path)
    except Exception as error:  # decoders raise errors of many kinds
        raise ValueError(f"cannot read the image {str(path)!r}: {error}") from error


def read_size(path: str | Path) -> tuple[int, int]:
    """Returns height and width from the file's head, without decoding it."""
    from PIL import Image

    with open(path, "rb") as file:
        if file.read(4) in _TIFF:
            import tifffile

            with tifffile.TiffFile(path) as tiff:
                return tiff.pages[0].imagelength, tiff.pages[0].imagewidth
    with Image.open(path) as image:
        size = image.height, image.width
        if "exif" not in image.info:  # or a PNG would be decoded to look behind it
            return size
        return size[::-1] if image.getexif().get(ORIENTATION, 1) in TURNED else size


def extensions() -> set[str]:
    """Returns the endings, with dot, of the files Pillow can read."""
    from PIL import Image

    known = Image.registered_extensions()  # first: this is what fills Image.OPEN
    # EPS starts an interpreter of PostScript: not for files of unknown origin. Of the
    # others Pillow knows the heads only.
    kinds = set(Image.OPEN) - {"EPS", "MPEG", "BUFR", "GRIB", "HDF5", "WMF"}
    return {ending for ending, kind in known.items() if kind in kinds}


def list_files(folder: str | Path) -> list[Path]:
    """Returns the image files below a folder, in the order of their paths."""
    if not Path(folder).is_dir():
        raise ValueError(f"no folder {str(folder)!r}")
    endings = extensions()
    found = sorted(
        path
        for path in Path(folder).rglob("*")
        if path.suffix.lower() in endings
        and not path.name.startswith(".")  # other systems' notes on a file
        and path.is_file()
    )
    if not found:
        raise ValueError(f"no images in {str(folder)!r}")
    return found


def to_float(pixels: np.ndarray) -> np.ndarray:
    """Returns uint8 or uint16 pixels as float32 in [0, 1]."""
    scale = np.float32(np.iinfo(pixels.dtype).max)
    return pixels.astype(np.float32) / scale
