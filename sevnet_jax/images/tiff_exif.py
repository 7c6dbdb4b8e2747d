"""EXIF data in TIFF files: separate directories, which tifffile does not write.

tifffile writes a placeholder for each in the file's first directory, under a tag number
next to the real one. Then the directory is appended, and the placeholder points to it.
"""

import struct
from pathlib import Path

from PIL import Image, TiffImagePlugin

from sevnet_jax.images.picture import ORIENTATION

DIRECTORIES = SHOT, GPS = 34665, 34853
INTEROPERABILITY = 40965  # a directory inside that of the shot
CLASSIC = (b"*\0", b"\0*")
ENTRY = 12  # bytes in a directory: code, type, count, value or where it is
ASCII, LONG = 2, 4  # types
LONGEST = 8192  # letters; a microscope's XML has no room in a JPEG file


def read(path: Path, others: tuple[int, ...]) -> bytes | None:
    """Returns what a file says of its shot, with other tags; None if nothing."""
    inside, found = Image.Exif(), Image.Exif()
    try:
        with path.open("rb") as file:
            inside.load_from_fp(file)
            for code in DIRECTORIES:
                if values := inside.get_ifd(code):
                    texts = {key: _to_bytes(value) for key, value in values.items()}
                    found.get_ifd(code).update(texts)
        found.update(
            {
                code: _to_bytes(inside[code])
                for code in others
                if code in inside and is_said(str(inside[code]))
            }
        )
        return None if {*found} <= {ORIENTATION} else found.tobytes()
    except Exception:  # the picture is worth more than what is said about it
        return None


def is_said(text: str) -> bool:
    """Whether a text is for people: not what programs note, such as tifffile."""
    return len(text) <= LONGEST and '"shape"' not in text


def find_texts(exif: bytes | None, codes: tuple[int, ...]) -> list[tuple]:
    """Returns extra tags with the texts of these codes, of a file of another format."""
    found = Image.Exif()
    found.load(exif or b"")
    return [
        (code, ASCII, 0, to_text(found[code]), True) for code in codes if code in found
    ]


def keep_places(exif: bytes | None) -> list[tuple]:
    """Returns the extra tags to write a file with, for `fill_places`."""
    return [(code - 1, LONG, 1, 0, True) for code in _find_directories(exif)]


def fill_places(path: Path, exif: bytes | None) -> None:
    """Appends the directories to a file that was written with `keep_places`."""
    directories = _find_directories(exif)
    if not directories:
        return
    with path.open("r+b") as file:
        header = file.read(8)
        if header[2:4] not in CLASSIC:  # of 4 GB and more, laid out otherwise
            return
        order = "<" if header[:2] == b"II" else ">"
        (start,) = struct.unpack(f"{order}I", header[4:])
        file.seek(start)
        (count,) = struct.unpack(f"{order}H", file.read(2))
        for place in range(start + 2, start + 2 + ENTRY * count, ENTRY):
            file.seek(place)
            (code,) = struct.unpack(f"{order}H", file.read(2))
            if code + 1 not in directories:
                continue
            content = TiffImagePlugin.ImageFileDirectory_v2(header)
            for key, value in directories[code + 1].items():
                if isinstance(value, str):
                    content.tagtype[key], value = ASCII, to_text(value)
                content[key] = value
            end = file.seek(0, 2)
            end += end % 2
            file.seek(end)
            file.write(content.tobytes(end))
            file.seek(place)
            file.write(struct.pack(f"{order}HHII", code + 1, LONG, 1, end))


def _find_directories(exif: bytes | None) -> dict[int, dict]:
    found = Image.Exif()
    found.load(exif or b"")
    directories = {code: dict(found.get_ifd(code)) for code in DIRECTORIES}
    directories[SHOT].pop(INTEROPERABILITY, None)  # a place in the other file
    return {code: values for code, values in directories.items() if values}


def to_text(value: object) -> bytes:
    """Returns a text as the file had it: Pillow reads every byte as a letter."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0")
    return str(value).encode("latin-1", "replace")


def _to_bytes(value: object) -> object:
    """The same, but text beyond ASCII as bytes: as text Pillow would write "?"."""
    return to_text(value) if isinstance(value, str) and not value.isascii() else value
