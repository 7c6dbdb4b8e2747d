"""PNG files at full precision, with their metadata."""

import io
import struct
import zlib

import imagecodecs
import numpy as np
from PIL import Image

from sevnet_jax.images.picture import Picture, Refused, orientation_alone

SIGNATURE = b"\x89PNG\r\n\x1a\n"
ENDING = ".png"
# What is copied as it is: how to show the colours, and texts.
KEPT = (b"gAMA", b"cHRM", b"sRGB", b"cICP", b"tEXt", b"zTXt", b"iTXt", b"tIME")
END = b"IEND"
METRES_PER_INCH = 0.0254
HEADER_END = len(SIGNATURE) + 4 + 4 + 13 + 4  # IHDR with its length, name and sum


def is_16bit(head: bytes) -> bool:
    """Whether a file that begins so is a PNG of 16 bit."""
    return head[: len(SIGNATURE)] == SIGNATURE and head[24:25] == b"\x10"


def read_chunks(data: bytes) -> bytes:
    """Returns the chunks of a PNG file that are to be kept, one behind the other.

    Raises `Refused` at one that is longer than the file: decoders would take as much
    memory as it says.
    """
    found, position = b"", len(SIGNATURE)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        name, end = data[position + 4 : position + 8], position + 12 + length
        if end > len(data):
            raise Refused("a damaged image: a part of it is missing")
        if name in KEPT:
            found += data[position:end]
        if name == END:
            break
        position = end
    return found


def encode(pixels: np.ndarray, source: Picture) -> bytes:
    """Returns a PNG file of 8 or 16 bit with what `source` says."""
    if pixels.dtype == np.uint16:
        data = bytes(imagecodecs.png_encode(np.ascontiguousarray(pixels)))
    else:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        data = buffer.getvalue()
    chunks = source.png
    if source.icc:
        chunks += _chunk(b"iCCP", b"ICC\0\0" + zlib.compress(source.icc))
    if source.dpi:
        per_metre = [round(d / METRES_PER_INCH) for d in source.dpi]
    if source.dpi and max(per_metre) < 2**32:
        chunks += _chunk(b"pHYs", struct.pack(">IIB", *per_metre, 1))
    exif = source.exif
    if exif is None and source.orientation != 1:
        exif = orientation_alone(source.orientation)
    if exif:
        chunks += _chunk(b"eXIf", exif.removeprefix(b"Exif\0\0"))
    return data[:HEADER_END] + chunks + data[HEADER_END:]


def _chunk(name: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + check
