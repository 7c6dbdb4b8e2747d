"""Image files to arrays and back, with bit depth, EXIF, colour profile, resolution.

16-bit PNG files go through imagecodecs and TIFF files through tifffile, because Pillow
reduces 16-bit colour to 8 bit. Everything else goes through Pillow.
"""

import errno
import warnings
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from PIL import Image, ImageOps

from sevnet_jax.files import write_atomically
from sevnet_jax.images import png, tiff
from sevnet_jax.images.picture import (
    ORIENTATION,
    Picture,
    Refused,
    check_size,
    orientation_alone,
)
from sevnet_jax.images.pixels import find_exif, read_orientation

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # through Pillow; others may lose bits
ENDINGS = (*tiff.ENDINGS, ".png", ".jpg", ".jpeg", ".webp", ".bmp")
NO_ALPHA = (".jpg", ".jpeg", ".bmp")
EXIF_HEADER = b"Exif\0\0"
LONGEST = {".webp": 16383, ".jpg": 65500, ".jpeg": 65500}  # sides that they can have
MULTIPLIED = 1  # alpha, by the number that a TIFF has for it
MODES = ("L", "LA", "RGB", "RGBA")


def read_picture(path: Path, most_pixels: int) -> Picture:
    """Returns the picture in a file; `Refused` says why there is none."""
    with path.open("rb") as file:
        head = file.read(32)
    if not head:
        raise Refused("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if head[:4] in tiff.HEADS:
                return tiff.read(path, most_pixels)
            return _read_other(path, head, most_pixels)
    except Refused:
        raise
    except MemoryError:
        raise Refused("it does not fit into memory") from None
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Refused("a damaged image: it points out of the file") from error
        if error.errno:
            raise
        raise Refused(f"a damaged image: {error}") from error
    except Exception as error:  # decoders raise errors of many kinds
        raise Refused(f"a damaged image: {error}") from error


def write_picture(path: Path, pixels: np.ndarray, source: Picture) -> None:
    """Writes pixels in the format that the ending names, with what `source` says."""
    check_target(path, pixels, source)
    if path.suffix.lower() in tiff.ENDINGS:
        write_atomically(path, lambda p: tiff.write(p, pixels, source))
        return
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    if path.suffix.lower() == png.ENDING:
        data = png.encode(pixels, source)
        write_atomically(path, lambda p: p.write_bytes(data))
    else:
        write_atomically(path, lambda p: _write_by_pillow(p, pixels, source))


def check_target(path: Path, pixels: np.ndarray, source: Picture) -> None:
    """Raises `Refused` if a file of that ending would lose something of the pixels.

    Or if it would take them for something else than `source` does.
    """
    ending, dtype = path.suffix.lower(), pixels.dtype
    if ending not in ENDINGS:
        raise Refused(
            f"cannot write files that end in {ending or 'nothing'!r}; use one of "
            f"{', '.join(ENDINGS)}"
        )
    if ending in tiff.ENDINGS:
        return
    if pixels.ndim == 4:
        raise Refused(f"only a TIFF can hold several pages, not {ending!r}")
    if dtype != np.uint8 and not (dtype == np.uint16 and ending == ".png"):
        fitting = ".png or .tif" if dtype == np.uint16 else ".tif"
        raise Refused(f"{ending!r} cannot hold {dtype} pixels; use {fitting}")
    if pixels.ndim == 3 and pixels.shape[-1] > 4:
        raise Refused(f"{ending!r} cannot hold {pixels.shape[-1]} channels; use .tif")
    if pixels.ndim == 3 and pixels.shape[-1] in (2, 4) and source.tiff:
        if not source.last_is_alpha:
            raise Refused(f"{ending!r} would take its last channel for alpha; use .tif")
        if source.tiff["extrasamples"][-1] == MULTIPLIED:
            raise Refused(
                f"its colours are multiplied by alpha, which {ending!r} has no word "
                "for; use .tif"
            )
    longest = max(pixels.shape[:2])
    if longest > LONGEST.get(ending, longest):
        raise Refused(
            f"{ending!r} has sides of at most {LONGEST[ending]} pixels, not {longest}; "
            "use .png or .tif"
        )
    if ending in NO_ALPHA and pixels.ndim == 3 and pixels.shape[-1] in (2, 4):
        raise Refused(f"{ending!r} has no alpha; use .png or .tif")


def _read_other(path: Path, head: bytes, most_pixels: int) -> Picture:
    chunks = b""
    if head.startswith(png.SIGNATURE):
        chunks = png.read_chunks(path.read_bytes())
    Image.MAX_IMAGE_PIXELS = None  # we have a limit of our own
    try:
        image: Image.Image = Image.open(path, formats=FORMATS)
    except Image.UnidentifiedImageError:
        raise Refused(f"not an image in one of {', '.join(FORMATS)} or TIFF") from None
    with image:
        check_size(*image.size, most_pixels)
        if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
            raise Refused("it is animated; only still images can be restored")
        exif, damage = _read_exif(image)
        info: dict[str, Any] = {
            "icc": image.info.get("icc_profile"),
            "exif": exif,
            "dpi": image.info.get("dpi"),
            "orientation": read_orientation(image),
            "lossy": _is_lossy(image.format, path),
            "png": chunks,
        }
        if png.is_16bit(head):
            pixels = imagecodecs.png_decode(path.read_bytes())
            return Picture(pixels, **info, note=damage)
        note = "its first picture only" if image.format == "MPO" else ""
        alpha = "transparency" in image.info
        if image.mode == "P":
            colours = "RGBA" if alpha else "RGB"
            image, note = image.convert(colours), f"a palette, saved as {colours}"
        elif alpha and image.mode in ("L", "RGB"):
            image = image.convert(image.mode + "A")
        if image.mode not in MODES:
            raise Refused(
                f"its pixels are {image.mode!r}; convert it to grey or RGB first, with "
                "or without alpha"
            )
        notes = filter(None, (note, damage))
        return Picture(np.asarray(image), **info, note="; ".join(notes))


def _read_exif(image: Image.Image) -> tuple[bytes | None, str]:
    """The EXIF data, and a note if they are lost: the picture is worth more."""
    lost = None, "without its EXIF data, which are damaged"
    exif = find_exif(image)
    if exif is None:
        return lost
    try:
        encoded = exif.tobytes() if exif else None
        raw, inside = image.info.get("exif"), Image.Exif()
        inside.load(raw or b"")
    except Exception:  # of a tag whose type is not its own, many kinds
        return lost
    # As they are: Pillow writes letters beyond ASCII as "?". But it finds data outside
    # of them, too: an orientation in XMP.
    if not raw or inside.get(ORIENTATION) != exif.get(ORIENTATION):
        return encoded, ""
    return EXIF_HEADER + raw.removeprefix(EXIF_HEADER), ""  # which WebP files lack


def _is_lossy(kind: str | None, path: Path) -> bool:
    return kind in ("JPEG", "MPO") or (
        kind == "WEBP" and b"VP8L" not in path.read_bytes()
    )


def _write_by_pillow(path: Path, pixels: np.ndarray, source: Picture) -> None:
    image = Image.fromarray(pixels)
    ending = path.suffix.lower()
    exif = source.exif
    if exif is None and source.orientation != 1:
        exif = orientation_alone(source.orientation)
    if ending == ".bmp" and exif:  # which has no place for it: turn the pixels
        image.getexif().load(exif)
        image, exif = ImageOps.exif_transpose(image), None
    options: dict[str, Any] = {"quality": 95}
    if ending == ".webp":
        # Exact: also the colours under what is transparent.
        options |= {"lossless": not source.lossy, "exact": True, "use_sharp_yuv": True}
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
