"""Image files to plain pixels: upright, 8 or 16 bit, grey, colour or more channels."""

import struct
import warnings
from pathlib import Path
from typing import BinaryIO

import imagecodecs
import numpy as np
import tifffile
from PIL import Image

from sevnet_jax.images import png, tiff
from sevnet_jax.images.picture import ORIENTATION, find_orientation

_TURNED = (5, 6, 7, 8)  # orientations that swap the sides
_HEAD_BYTES = 25  # a PNG's bit depth is its byte 24
MOST_OF_PILLOW = 4  # channels
_MODES = ("L", "LA", "RGB", "RGBA")
LUMA = (19595, 38470, 7471)  # of 2^16: Pillow's "L", after ITU-R 601


def to_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """Returns [H, W, C] pixels, uint8 or uint16, with as many channels as asked for.

    One is the luminance; grey becomes three equal channels; alpha is dropped. Other
    counts must be there already.
    """
    found = pixels.shape[-1]
    if found == channels:
        return pixels
    if channels == 1 and found in (2, 3, 4):
        return pixels[..., :1] if found == 2 else _find_luminance(pixels)
    if channels == 3 and found in (1, 2, 4):
        return pixels[..., :3] if found == 4 else np.repeat(pixels[..., :1], 3, -1)
    raise ValueError(f"the image has {found} channels, the network takes {channels}")


def _find_luminance(pixels: np.ndarray) -> np.ndarray:  # [H, W, 3 or 4] -> [H, W, 1]
    wide = pixels[..., :3].astype(np.uint32) @ np.array([LUMA], np.uint32).T
    return (wide + 2**15 >> 16).astype(pixels.dtype)


def _with_channels(pixels: np.ndarray) -> np.ndarray:  # [H, W] -> [H, W, 1]
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3:
        raise ValueError(f"{pixels.shape} is not the shape of an image")
    return np.ascontiguousarray(pixels)


def _read_exactly(file: BinaryIO, head: bytes) -> np.ndarray | None:
    """Returns the pixels of a PNG or TIFF that Pillow would cut; else None."""
    if png.is_16bit(head):
        _check_size(*struct.unpack(">II", head[16:24]))
        pixels = imagecodecs.png_decode(file.read())
        file.seek(0)
        with Image.open(file) as image:
            return turn_upright(pixels, read_orientation(image))
    if head[:4] in tiff.HEADS:
        with tifffile.TiffFile(file) as opened:
            page = opened.pages.first
            _check_size(page.imagewidth, page.imagelength)
            if page.dtype == np.uint16 or page.samplesperpixel > MOST_OF_PILLOW:
                return turn_upright(_read_page(page), tiff.read_orientation(page))
            if page.dtype not in (np.uint8, np.bool_):
                raise ValueError(f"pixels are {page.dtype}, of unknown range")
        file.seek(0)
    return None


def read_orientation(image: Image.Image) -> int:
    """Returns the orientation that the EXIF data of an image name, 1 if none."""
    exif = find_exif(image)
    return find_orientation(exif.get(ORIENTATION) if exif else None)


def find_exif(image: Image.Image) -> Image.Exif | None:
    """Returns the EXIF data of an image, empty if it has none, None if damaged."""
    try:
        return image.getexif()
    except (SyntaxError, ValueError, struct.error):  # OSError: of the pixels of a PNG
        return None


def turn_upright(pixels: np.ndarray, orientation: int) -> np.ndarray:  # [H, W, ...]
    """Returns pixels as they are to be seen, given how they are stored (EXIF)."""
    if orientation in _TURNED:
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def _read_page(page: tifffile.TiffPage) -> np.ndarray:
    kind = tiff.name_kind(page)
    if page.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"pixels are {page.dtype}, of unknown range")
    if kind not in ("MINISBLACK", "MINISWHITE", "RGB"):
        raise ValueError(f"a TIFF of kind {kind} is not supported")
    pixels = page.asarray()
    if kind == "MINISWHITE":
        pixels = np.iinfo(pixels.dtype).max - pixels
    return np.moveaxis(pixels, 0, -1) if page.axes.startswith("S") else pixels


def _ppm_maximum(head: bytes) -> int:
    """The largest value a PPM file announces; 255 if comments push it out of sight."""
    words = head.split()
    return int(words[3]) if len(words) > 3 and words[3].isdigit() else 255


def _check_size(width: int, height: int) -> None:
    """Pillow's guard against bombs, for files that do not go through Pillow."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and width * height > 2 * limit:
        raise ValueError(f"{width}x{height} is more than {2 * limit} pixels")


def decode(file: BinaryIO) -> np.ndarray:
    """Returns the pixels of an open file [H, W, C], uint8 or uint16."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    with warnings.catch_warnings():  # a bad file is named once, by who asked for it
        warnings.simplefilter("ignore")
        pixels = _read_exactly(file, head)
        if pixels is not None:
            return _with_channels(pixels)
        with Image.open(file) as image:
            kind = image.format
            if kind == "PPM" and image.mode == "RGB" and _ppm_maximum(head) > 255:
                raise ValueError(
                    "16-bit colour PPM is not supported; convert it to PNG"
                )
            if image.mode.startswith("I;16") or (image.mode, kind) == ("I", "PPM"):
                return _with_channels(np.asarray(image).astype(np.uint16))
            if image.mode in ("F", "I"):
                raise ValueError("pixels are floats or 32 bit, of unknown range")
            plain = "transparency" not in image.info and image.mode in _MODES
            pixels = np.asarray(image if plain else image.convert("RGB"))
            return turn_upright(_with_channels(pixels), read_orientation(image))


def read_pixels(path: str | Path) -> np.ndarray:
    """Returns the pixels of the file at `path` [H, W, C], uint8 or uint16."""
    with open(path, "rb") as file:
        return decode(file)


def read_named_pixels(path: str | Path) -> np.ndarray:
    """Returns what `read_pixels` does; if it cannot, the ValueError names the file."""
    try:
        return read_pixels(path)
    except Exception as error:  # decoders raise errors of many kinds
        raise ValueError(f"cannot read the image {str(path)!r}: {error}") from error


def read_size(path: str | Path) -> tuple[int, int]:
    """Returns height and width from the file's head, without decoding it."""
    with open(path, "rb") as file:
        if file.read(4) in tiff.HEADS:
            with tifffile.TiffFile(path) as opened:
                page = opened.pages.first
                size = page.imagelength, page.imagewidth
                return size[::-1] if tiff.read_orientation(page) in _TURNED else size
    with Image.open(path) as image:
        size = image.height, image.width
        if "exif" not in image.info:  # or a PNG would be decoded to look behind it
            return size
        return size[::-1] if read_orientation(image) in _TURNED else size


def extensions() -> set[str]:
    """Returns the endings, with dot, of the files Pillow can read."""
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
