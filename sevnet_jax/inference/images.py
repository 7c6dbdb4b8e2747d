"""Image files to arrays and back, with bit depth, EXIF, colour profile, resolution.

PNG of 16 bit goes through imagecodecs and TIFF through tifffile, since Pillow cuts
16-bit colour to 8 bit; everything else through Pillow.
"""

import dataclasses
import math
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile
from PIL import Image, ImageOps

from sevnet_jax.files import write_atomically

PNG = b"\x89PNG\r\n\x1a\n"
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
TIFF_ENDINGS = (".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # through Pillow; others may lose bits
ENDINGS = (*TIFF_ENDINGS, ".png", ".jpg", ".jpeg", ".webp", ".bmp")
NO_ALPHA = (".jpg", ".jpeg", ".bmp")
JPEG_IN_TIFF = (6, 7)
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
    orientation: int = 1  # as in EXIF
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
    check_target(path, pixels)
    if path.suffix.lower() in TIFF_ENDINGS:
        write_atomically(path, lambda p: _write_tiff(p, pixels, source))
    elif pixels.dtype == np.uint16:
        data = _png_with(imagecodecs.png_encode(pixels), source)
        write_atomically(path, lambda p: p.write_bytes(data))
    else:
        write_atomically(path, lambda p: _write_by_pillow(p, pixels, source))


def check_target(path: Path, pixels: np.ndarray) -> None:
    """Raises `Refused` if a file of that ending would lose something of the pixels."""
    ending, dtype = path.suffix.lower(), pixels.dtype
    if ending not in ENDINGS:
        raise Refused(
            f"cannot write files that end in {ending or 'nothing'!r}; take one of "
            f"{', '.join(ENDINGS)}"
        )
    if ending in TIFF_ENDINGS:
        return
    if pixels.ndim == 4:
        raise Refused(f"several pages fit into a TIFF, not into {ending!r}")
    if dtype != np.uint8 and not (dtype == np.uint16 and ending == ".png"):
        fitting = ".png or .tif" if dtype == np.uint16 else ".tif"
        raise Refused(f"{ending!r} cannot hold {dtype} pixels; take {fitting}")
    if ending in NO_ALPHA and pixels.ndim == 3 and pixels.shape[-1] in (2, 4):
        raise Refused(f"{ending!r} has no alpha; take .png or .tif")


def check_size(width: int, height: int, most_pixels: int) -> None:
    if width * height > most_pixels:
        raise Refused(
            f"{width}x{height} is more than {most_pixels} pixels; if it is to be "
            "believed, raise --max-pixels"
        )


def _read_other(path: Path, head: bytes, most_pixels: int) -> Picture:
    Image.MAX_IMAGE_PIXELS = None  # we have a limit of our own
    try:
        image = Image.open(path, formats=FORMATS)
    except Image.UnidentifiedImageError:
        raise Refused(f"not an image in one of {', '.join(FORMATS)} or TIFF") from None
    with image:
        check_size(*image.size, most_pixels)
        if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
            raise Refused("it is animated; only still images can be restored")
        exif = image.getexif()
        info = {
            "icc": image.info.get("icc_profile"),
            "exif": exif.tobytes() if exif else None,
            "dpi": image.info.get("dpi"),
            "orientation": exif.get(ORIENTATION, 1),
        }
        if head[:8] == PNG and head[24] == 16:
            return Picture(imagecodecs.png_decode(path.read_bytes()), **info)
        note = "its first picture only" if image.format == "MPO" else ""
        alpha = "transparency" in image.info
        if image.mode == "P":
            colours = "RGBA" if alpha else "RGB"
            image, note = image.convert(colours), f"a palette, saved as {colours}"
        elif alpha and image.mode in ("L", "RGB"):
            image = image.convert(image.mode + "A")
        if image.mode not in MODES:
            raise Refused(
                f"its pixels are {image.mode!r}; grey and RGB can be restored, with "
                "or without alpha: convert it first"
            )
        return Picture(np.asarray(image), **info, note=note)


def _read_tiff(path: Path, most_pixels: int) -> Picture:
    with tifffile.TiffFile(path) as file:
        page, series = file.pages[0], file.series[0]
        if len(file.series) > 1:
            raise Refused(f"a TIFF of {len(file.series)} different images; split it")
        count = math.prod(series.shape) // page.samplesperpixel
        check_size(page.imagewidth, count // page.imagewidth, most_pixels)
        kind = page.photometric.name
        colour = kind == "RGB" or (kind == "YCBCR" and page.compression in JPEG_IN_TIFF)
        if not colour and kind not in ("MINISBLACK", "MINISWHITE"):
            raise Refused(f"a TIFF of kind {kind}; convert it to grey or RGB first")
        if page.bitspersample != 8 * page.dtype.itemsize:
            raise Refused(f"a TIFF of {page.bitspersample} bit; convert it to 8 or 16")
        pixels, axes = series.asarray(), series.axes
        if kind == "MINISWHITE":
            if pixels.dtype.kind != "u":
                raise Refused("an inverted TIFF of floats; convert it first")
            pixels = np.iinfo(pixels.dtype).max - pixels
        if axes.startswith("S"):
            pixels, axes = np.moveaxis(pixels, 0, -1), axes[1:] + "S"
        if not axes.endswith(("YX", "YXS")):
            raise Refused(f"a TIFF with the axes {axes}; only stacks of images work")
        plain = pixels if axes.endswith("S") else pixels[..., None]
        pages = plain.reshape(-1, *plain.shape[-3:])
        single = len(pages) == 1 and pixels.ndim <= 3
        texts = [
            (code, 2, 0, str(page.tags[code].value).encode(), True)
            for code in TIFF_TEXTS
            if code in page.tags and '"shape"' not in str(page.tags[code].value)
        ]
        orientation = page.tags[ORIENTATION].value if ORIENTATION in page.tags else 1
        return Picture(
            (pages[0] if axes.endswith("S") else pages[0, ..., 0]) if single else pages,
            icc=page.tags[ICC].value if ICC in page.tags else None,
            dpi=_tiff_dpi(page),
            orientation=int(orientation),
            tiff={
                "shape": pixels.shape,
                "photometric": "rgb" if colour else "minisblack",
                "compression": page.compression,
                "extrasamples": page.extrasamples or None,
                "resolution": _tiff_resolution(page),
                "texts": texts,
            },
            note="without its smaller copies" if page.subifds else "",
        )


def _tiff_resolution(page) -> tuple[tuple[float, float], int] | None:
    """X and Y as they are, and the number of their unit."""
    try:
        x, y = (page.tags[f"{axis}Resolution"].value for axis in "XY")
        unit = page.tags["ResolutionUnit"].value if "ResolutionUnit" in page.tags else 2
        return (x[0] / x[1], y[0] / y[1]), int(unit)
    except (KeyError, ZeroDivisionError):
        return None


def _tiff_dpi(page) -> tuple[float, float] | None:
    found = _tiff_resolution(page)
    if found is None or found[1] not in (2, 3):
        return None
    scale = 1.0 if found[1] == 2 else 2.54
    return found[0][0] * scale, found[0][1] * scale


def _write_tiff(path: Path, pixels: np.ndarray, source: Picture) -> None:
    colours = pixels.shape[-1] if pixels.ndim > 2 else 1
    default = "rgb" if colours > 2 else "minisblack"
    tags = list(source.tiff.get("texts", ()))
    if source.icc:
        tags.append((ICC, 7, len(source.icc), source.icc, True))
    if source.orientation != 1:
        tags.append((ORIENTATION, 3, 1, source.orientation, True))
    compression = source.tiff.get("compression", 8)
    if compression in JPEG_IN_TIFF:  # it would lose some of what was won
        compression = 8
    shape = source.tiff.get("shape", pixels.shape)
    nested = len(shape) > 3 + (colours > 2)
    resolution = source.tiff.get("resolution") or (source.dpi and (source.dpi, 2))
    tifffile.imwrite(
        path,
        pixels.reshape(shape),
        photometric=source.tiff.get("photometric", default),
        compression=compression,
        extrasamples=source.tiff.get("extrasamples")
        or (["unassalpha"] if colours in (2, 4) else None),
        resolution=resolution[0] if resolution else None,
        resolutionunit=resolution[1] if resolution else None,
        software=False,
        metadata={} if nested else None,  # tifffile's own note on the shape
        extratags=tags,
    )


def _write_by_pillow(path: Path, pixels: np.ndarray, source: Picture) -> None:
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    image = Image.fromarray(pixels)
    ending = path.suffix.lower()
    exif = source.exif
    if exif is None and source.orientation != 1:
        exif = _orientation_alone(source.orientation)
    if ending == ".bmp" and exif:  # which has no place for it: turn the pixels
        image.getexif().load(exif)
        image, exif = ImageOps.exif_transpose(image), None
    options: dict[str, Any] = {"quality": 95}
    if ending in (".jpg", ".jpeg"):
        options["subsampling"] = 0
    for name, value in (
        ("icc_profile", source.icc),
        ("exif", exif),
        ("dpi", source.dpi),
    ):
        if value:
            options[name] = value
    image.save(path, **options)


def _orientation_alone(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif.tobytes()


def _png_with(data: bytes, source: Picture) -> bytes:
    """A PNG with colour profile, resolution and EXIF behind its header."""
    chunks = b""
    if source.icc:
        chunks += _chunk(b"iCCP", b"ICC\0\0" + zlib.compress(source.icc))
    if source.dpi:
        per_metre = (round(d / METRES_PER_INCH) for d in source.dpi)
        chunks += _chunk(b"pHYs", struct.pack(">IIB", *per_metre, 1))
    exif = source.exif
    if exif is None and source.orientation != 1:
        exif = _orientation_alone(source.orientation)
    if exif:
        chunks += _chunk(b"eXIf", exif.removeprefix(b"Exif\0\0"))
    end = len(PNG) + 4 + 4 + 13 + 4  # signature, and IHDR with length, name and sum
    return data[:end] + chunks + data[end:]


def _chunk(name: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + check
