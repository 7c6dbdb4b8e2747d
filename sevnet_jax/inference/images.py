"""Image files to arrays and back: nothing lost on the way, neither bits nor metadata.

PNG of 16 bit goes through imagecodecs and TIFF through tifffile, since Pillow cuts
16-bit colour to 8 bit; everything else through Pillow.
"""

import dataclasses
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from PIL import Image

from sevnet_jax.files import write_atomically

PNG = b"\x89PNG\r\n\x1a\n"
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
TIFF_ENDINGS = (".tif", ".tiff")
MODES = ("L", "LA", "RGB", "RGBA")
# Of TIFF files also: what, maker, model, orientation, program, date, author, rights.
TIFF_TEXTS = (270, 271, 272, 305, 306, 315, 33432)
ORIENTATION, ICC = 274, 34675
METRES_PER_INCH = 0.0254


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
    tiff: dict[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""  # what is worth saying about how it was read


def read(path: Path, most_pixels: int) -> Picture:
    """Returns the picture in a file; `Refused` says why there is none."""
    with path.open("rb") as file:
        head = file.read(32)
    if not head:
        raise Refused("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if head[:4] in TIFF:
                return _read_tiff(path, most_pixels)
            return _read_other(path, head, most_pixels)
    except Refused:
        raise
    except MemoryError:
        raise Refused("it does not fit into memory") from None
    except OSError as error:
        if error.errno:
            raise
        raise Refused(f"a damaged image: {error}") from error
    except Exception as error:  # decoders raise errors of many kinds
        raise Refused(f"a damaged image: {error}") from error


def write(path: Path, pixels: np.ndarray, source: Picture) -> None:
    """Writes pixels in the format that the ending names, with what `source` says."""
    ending = path.suffix.lower()
    check_target(path, pixels.dtype, pages=pixels.ndim == 4)
    if ending in TIFF_ENDINGS:
        write_atomically(path, lambda p: _write_tiff(p, pixels, source))
    elif pixels.dtype == np.uint16:
        data = _png_with(imagecodecs.png_encode(pixels), source)
        write_atomically(path, lambda p: p.write_bytes(data))
    else:
        write_atomically(path, lambda p: _write_by_pillow(p, pixels, source))


def check_target(path: Path, dtype: np.dtype, pages: bool = False) -> None:
    """Raises `Refused` if a file of that ending would lose something of the pixels."""
    ending = path.suffix.lower()
    known = Image.registered_extensions()
    if ending not in TIFF_ENDINGS and known.get(ending) not in Image.SAVE:
        raise Refused(f"cannot write files that end in {ending or 'nothing'!r}")
    if ending in TIFF_ENDINGS:
        return
    if pages:
        raise Refused(f"several pages fit into a TIFF, not into {ending!r}")
    if dtype != np.uint8 and not (dtype == np.uint16 and ending == ".png"):
        fitting = ".png or .tif" if dtype == np.uint16 else ".tif"
        raise Refused(f"{ending!r} cannot hold {dtype} pixels; take {fitting}")


def check_size(width: int, height: int, most_pixels: int) -> None:
    if width * height > most_pixels:
        raise Refused(
            f"{width}x{height} is more than {most_pixels} pixels; if it is to be "
            "believed, raise --max-pixels"
        )


def _read_other(path: Path, head: bytes, most_pixels: int) -> Picture:
    Image.MAX_IMAGE_PIXELS = None  # we have a limit of our own
    try:
        image = Image.open(path)
    except Image.UnidentifiedImageError:
        raise Refused("not an image that can be read") from None
    with image:
        check_size(*image.size, most_pixels)
        if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
            raise Refused("it is animated; only still images can be restored")
        info = {
            "icc": image.info.get("icc_profile"),
            "exif": image.info.get("exif") or image.getexif().tobytes() or None,
            "dpi": image.info.get("dpi"),
        }
        if head[:8] == PNG and head[24] == 16:
            return Picture(imagecodecs.png_decode(path.read_bytes()), **info)
        note = ""
        if image.mode == "P":
            colours = "RGBA" if "transparency" in image.info else "RGB"
            image, note = image.convert(colours), f"a palette, saved as {colours}"
        if image.mode not in MODES:
            raise Refused(
                f"its pixels are {image.mode!r}; grey and RGB can be restored, with "
                "or without alpha: convert it first"
            )
        return Picture(np.asarray(image), **info, note=note)


def _read_tiff(path: Path, most_pixels: int) -> Picture:
    with tifffile.TiffFile(path) as file:
        page, series = file.pages[0], file.series[0]
        check_size(page.imagewidth, page.imagelength, most_pixels)
        kind = page.photometric.name
        if kind not in ("MINISBLACK", "MINISWHITE", "RGB", "YCBCR"):
            raise Refused(f"a TIFF of kind {kind}; convert it to grey or RGB first")
        pixels = series.asarray()
        axes = series.axes
        if axes.startswith("S"):
            pixels, axes = np.moveaxis(pixels, 0, -1), axes[1:] + "S"
        if not axes.endswith(("YX", "YXS")):
            raise Refused(f"a TIFF with the axes {axes}; only stacks of images work")
        plain = pixels if axes.endswith("S") else pixels[..., None]
        pages = plain.reshape(-1, *plain.shape[-3:])
        single = len(pages) == 1 and pixels.ndim <= 3
        tags = [
            (tag.code, tag.dtype, tag.count, tag.value, True)
            for tag in page.tags
            if tag.code in (*TIFF_TEXTS, ORIENTATION)
        ]
        return Picture(
            (pages[0] if axes.endswith("S") else pages[0, ..., 0]) if single else pages,
            icc=page.tags[ICC].value if ICC in page.tags else None,
            dpi=_tiff_dpi(page),
            tiff={
                "shape": pixels.shape,
                "photometric": "rgb" if kind in ("RGB", "YCBCR") else kind.lower(),
                "compression": page.compression,
                "tags": tags,
            },
        )


def _tiff_dpi(page) -> tuple[float, float] | None:
    try:
        unit = {2: 1.0, 3: 2.54}[page.tags["ResolutionUnit"].value]
        x, y = (page.tags[f"{axis}Resolution"].value for axis in "XY")
        return x[0] / x[1] * unit, y[0] / y[1] * unit
    except (KeyError, ZeroDivisionError):
        return None


def _write_tiff(path: Path, pixels: np.ndarray, source: Picture) -> None:
    colours = pixels.shape[-1] if pixels.ndim > 2 else 1
    default = "rgb" if colours > 2 else "minisblack"
    tags = list(source.tiff.get("tags", ()))
    if source.icc:
        tags.append((ICC, 7, len(source.icc), source.icc, True))
    compression = source.tiff.get("compression", 8)
    if compression in (6, 7):  # JPEG would lose some of what was won
        compression = 8
    tifffile.imwrite(
        path,
        pixels.reshape(source.tiff.get("shape", pixels.shape)),
        photometric=source.tiff.get("photometric", default),
        compression=compression,
        extrasamples=["unassalpha"] if colours in (2, 4) else None,
        resolution=source.dpi,
        resolutionunit=2 if source.dpi else None,
        software=False,
        metadata=None,
        extratags=tags,
    )


def _write_by_pillow(path: Path, pixels: np.ndarray, source: Picture) -> None:
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    image = Image.fromarray(pixels)
    options: dict[str, Any] = {"quality": 95}
    kind = Image.registered_extensions()[path.suffix.lower()]
    if kind == "JPEG":
        options["subsampling"] = 0
        if image.mode in ("LA", "RGBA"):
            raise Refused("JPEG has no alpha; take .png or .tif")
    for name, value in (
        ("icc_profile", source.icc),
        ("exif", source.exif),
        ("dpi", source.dpi),
    ):
        if value:
            options[name] = value
    image.save(path, kind, **options)


def _png_with(data: bytes, source: Picture) -> bytes:
    """A PNG with colour profile, resolution and EXIF behind its header."""
    chunks = b""
    if source.icc:
        chunks += _chunk(b"iCCP", b"ICC\0\0" + zlib.compress(source.icc))
    if source.dpi:
        per_metre = (round(d / METRES_PER_INCH) for d in source.dpi)
        chunks += _chunk(b"pHYs", struct.pack(">IIB", *per_metre, 1))
    if source.exif:
        chunks += _chunk(b"eXIf", source.exif.removeprefix(b"Exif\0\0"))
    end = len(PNG) + 4 + 4 + 13 + 4  # signature, and IHDR with length, name and sum
    return data[:end] + chunks + data[end:]


def _chunk(name: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + check
