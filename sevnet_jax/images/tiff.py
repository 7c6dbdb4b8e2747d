"""TIFF files at full precision: 8 and 16 bit, floats, stacks."""

import contextlib
import logging
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import tifffile

from sevnet_jax.images import tiff_exif
from sevnet_jax.images.picture import (
    ORIENTATION,
    Picture,
    Refused,
    check_size,
    find_orientation,
)

HEADS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
ENDINGS = (".tif", ".tiff")
JPEG = (6, 7)  # compression
MOST_OF_A_PIXEL = 4  # channels; more count as more pixels
# Description, maker, model, program, date, author, rights.
TEXTS = (270, 271, 272, 305, 306, 315, 33432)
# Of GeoTIFF: scale, tie points, transformation, keys and what they name; then GDAL's
# own: metadata, and the value of pixels without data.
PLACES = (33550, 33922, 34264, 34735, 34736, 34737, 42112, 42113)
DESCRIPTION, ICC = 270, 34675


def read(path: Path, most_pixels: int) -> Picture:
    """Returns the image or the stack in a TIFF file."""
    _check_chain(path)
    with _watch_for_damage(), tifffile.TiffFile(path) as file:
        page, series = file.pages.first, file.series[0]
        if len(file.series) > 1:
            raise Refused(f"a TIFF of {len(file.series)} different images; split it")
        count = math.prod(series.shape) // min(page.samplesperpixel, MOST_OF_A_PIXEL)
        check_size(page.imagewidth, count // page.imagewidth, most_pixels)
        kind = name_kind(page)
        colour = kind == "RGB" or (kind == "YCBCR" and page.compression in JPEG)
        if not colour and kind not in ("MINISBLACK", "MINISWHITE"):
            raise Refused(f"a TIFF of kind {kind}; convert it to grey or RGB first")
        if page.dtype is None or page.bitspersample != 8 * page.dtype.itemsize:
            raise Refused(f"a TIFF of {page.bitspersample} bit; convert it to 8 or 16")
        pixels, axes = series.asarray(), series.axes
        if kind == "MINISWHITE" and pixels.dtype.kind != "u":
            raise Refused("an inverted TIFF of floats; convert it first")
        if "S" in axes:  # planes of colour, wherever they are
            pixels = np.moveaxis(pixels, axes.index("S"), -1)
            axes = axes.replace("S", "") + "S"
        if kind == "MINISWHITE":  # but not its alpha
            grey = pixels[..., :1] if axes.endswith("S") else pixels
            grey[:] = np.iinfo(pixels.dtype).max - grey
        if not axes.endswith(("YX", "YXS")):
            raise Refused(f"a TIFF with the axes {axes}; only stacks of images work")
        plain = pixels if axes.endswith("S") else pixels[..., None]
        pages = plain.reshape(-1, *plain.shape[-3:])
        single = len(pages) == 1 and pixels.ndim <= 3
        texts = [
            (code, 2, 0, _encode(page.tags[code].value), True)
            for code in TEXTS
            if code in page.tags and '"shape"' not in str(page.tags[code].value)
        ]
        return Picture(
            (pages[0] if axes.endswith("S") else pages[0, ..., 0]) if single else pages,
            icc=page.tags[ICC].value if ICC in page.tags else None,
            exif=tiff_exif.read(path, (*TEXTS, ORIENTATION)),
            dpi=_dpi(page),
            orientation=read_orientation(page),
            tiff={
                "shape": pixels.shape,
                "photometric": (
                    "rgb" if colour and page.samplesperpixel > 2 else "minisblack"
                ),
                "compression": page.compression,
                "extrasamples": page.extrasamples or None,
                "resolution": _resolution(page),
                "texts": texts,
                "places": _find_places(page),
            },
            note="without its smaller copies" if page.subifds else "",
        )


def _encode(text: str | bytes) -> bytes:
    """A text for a tag, whatever type it had."""
    return text.rstrip(b"\0") if isinstance(text, bytes) else str(text).encode()


def _find_places(page: tifffile.TiffPage) -> list[tuple]:
    """Tags that say where on earth the pixels are: they stay where they are."""
    tags = [page.tags[code] for code in PLACES if code in page.tags]
    return [
        (tag.code, int(tag.dtype), 0 if text else tag.count, value, True)
        for tag in tags
        for text in [isinstance(tag.value, str | bytes)]
        for value in [_encode(tag.value) if text else tag.value]
    ]


def _check_chain(path: Path) -> None:
    """Raises `Refused` if the pages name each other in a circle, without an end.

    tifffile would follow them for ever.
    """
    with path.open("rb") as file:
        head = file.read(16)
        order: Literal["little", "big"] = "little" if head[:2] == b"II" else "big"
        big = 43 in head[2:4]  # BigTIFF: numbers of 8 bytes in place of 4 and 2
        counted, tag, wide = (8, 20, 8) if big else (2, 12, 4)
        place = int.from_bytes(head[8:16] if big else head[4:8], order)
        seen: set[int] = set()
        size = path.stat().st_size
        while 0 < place < size:  # beyond the end is a fault that tifffile names
            if place in seen:
                raise Refused("a damaged image: its pages form a loop")
            seen.add(place)
            file.seek(place)
            count = int.from_bytes(file.read(counted), order)
            file.seek(min(place + counted + tag * count, size))
            place = int.from_bytes(file.read(wide), order)


def name_kind(page: tifffile.TiffPage) -> str:
    """Returns what the pixels mean; a kind that nobody knows is a number."""
    return getattr(page.photometric, "name", str(page.photometric))


def read_orientation(page: tifffile.TiffPage) -> int:
    """Returns how the pixels are stored, as in EXIF."""
    return find_orientation(page.tags.valueof(ORIENTATION))


_watched = threading.local()  # what each thread reads is its own


def _keep(record: logging.LogRecord) -> bool:
    """A filter: what is logged while a thread watches is kept, and not passed on."""
    found = getattr(_watched, "records", None)
    if found is not None:
        found.append(record)
    return found is None


@contextlib.contextmanager
def _watch_for_damage() -> Iterator[None]:
    """Turns tifffile's word of pages that are not there into an error.

    It logs this and continues without them; nothing else that it logs is useful.
    """
    logging.getLogger("tifffile").addFilter(_keep)  # once: it knows its filters
    records: list[logging.LogRecord] = []
    _watched.records = records
    try:
        yield
    finally:
        _watched.records = None
    for record in records:
        if "page offset" in record.getMessage():
            raise Refused("a damaged image: some of its pages are missing")


def _resolution(page) -> tuple[tuple[float, float], int] | None:
    """X and Y as they are, and the number of their unit."""
    try:
        x, y = (page.tags[f"{axis}Resolution"].value for axis in "XY")
        unit = page.tags["ResolutionUnit"].value if "ResolutionUnit" in page.tags else 2
        return (x[0] / x[1], y[0] / y[1]), int(unit) if unit in (1, 2, 3) else 1
    except (KeyError, ZeroDivisionError):
        return None


def _dpi(page) -> tuple[float, float] | None:
    found = _resolution(page)
    if found is None or found[1] not in (2, 3):
        return None
    scale = 1.0 if found[1] == 2 else 2.54
    return found[0][0] * scale, found[0][1] * scale


def write(path: Path, pixels: np.ndarray, source: Picture) -> None:
    """Writes a TIFF file, compressed as the source was, if that loses nothing."""
    colours = pixels.shape[-1] if pixels.ndim > 2 else 1
    default = "rgb" if colours > 2 else "minisblack"
    photometric = source.tiff.get("photometric", default)
    extra = colours - (3 if photometric == "rgb" else 1)
    given = source.tiff.get("extrasamples")
    tags = list(source.tiff.get("texts", ())) or tiff_exif.find_texts(
        source.exif, TEXTS
    )
    tags += source.tiff.get("places", ())
    if source.icc:
        tags.append((ICC, 7, len(source.icc), source.icc, True))
    if source.orientation != 1:
        tags.append((ORIENTATION, 3, 1, source.orientation, True))
    tags += tiff_exif.keep_places(source.exif)
    compression = source.tiff.get("compression", 8)
    if compression in JPEG:  # it would lose some of what was won
        compression = 8
    shape = source.tiff.get("shape", pixels.shape)
    described = any(tag[0] == DESCRIPTION for tag in tags)
    nested = len(shape) > 3 + (colours > 2)
    resolution = source.tiff.get("resolution") or (source.dpi and (source.dpi, 2))
    tifffile.imwrite(
        path,
        pixels.reshape(shape),
        photometric=photometric,
        # Or tifffile would guess it where there are more channels than rows.
        planarconfig="contig" if photometric == "rgb" else None,
        compression=compression,
        extrasamples=given
        if given and len(given) == extra  # a damaged file may say otherwise
        else ["unspecified" if source.tiff else "unassalpha"] * extra or None,
        resolution=resolution[0] if resolution else None,
        resolutionunit=resolution[1] if resolution else None,
        software=False,
        # tifffile's own note on the shape, unless a microscope's is there
        metadata={} if nested and not described else None,
        extratags=tags,
    )
    tiff_exif.fill_places(path, source.exif)
