"""Damaged files of every format: each is read or refused in a line, and none hangs."""

import io
import time
import tracemalloc

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image

from sevnet_jax import images

COUNT, FORMATS = 3000, 18  # files, all formats together
MOST_PIXELS = 200_000
MOST_BYTES = 64 * 2**20  # MOST_PIXELS of the widest pixels, several times over
MOST_SECONDS = 10
HUGE = [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff"]


def by_pillow(pixels, mode, ending, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, ending, **options)
    return file.getvalue()


def by_tifffile(pixels, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **options)
    return file.getvalue()


def make_files():
    """One good file of each format, as (name, bytes)."""
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 256, (24, 32, 3), np.uint8)
    wide = rng.integers(0, 65536, (24, 32, 3), np.uint16)
    floats = rng.uniform(size=(3, 24, 32)).astype(np.float32)
    exif = Image.Exif()
    exif[274] = 6
    yield "grey.png", by_pillow(colour, "L", "PNG")
    yield "colour.png", by_pillow(colour, "RGB", "PNG", dpi=(300, 300), exif=exif)
    yield "alpha.png", by_pillow(colour, "RGBA", "PNG")
    yield "palette.png", by_pillow(colour, "P", "PNG")
    yield "wide.png", imagecodecs.png_encode(wide)
    yield "photo.jpg", by_pillow(colour, "RGB", "JPEG", exif=exif)
    yield "grey.jpg", by_pillow(colour, "L", "JPEG", progressive=True)
    yield "lossy.webp", by_pillow(colour, "RGB", "WEBP", exif=exif)
    yield "lossless.webp", by_pillow(colour, "RGBA", "WEBP", lossless=True)
    yield "colour.bmp", by_pillow(colour, "RGB", "BMP")
    yield "plain.tif", by_tifffile(colour, photometric="rgb")
    yield "wide.tif", by_tifffile(wide, photometric="rgb", compression="lzw")
    yield "tiles.tif", by_tifffile(wide[..., 0], tile=(16, 16), compression="zlib")
    yield "wide_grey.png", imagecodecs.png_encode(wide[..., 0].copy())
    yield "big.tif", by_tifffile(colour, photometric="rgb", bigtiff=True)
    yield "jpeg.tif", by_tifffile(colour, photometric="rgb", compression="jpeg")
    yield "pages.tif", by_tifffile(floats, photometric="minisblack")
    yield (
        "planar.tif",
        by_tifffile(
            np.moveaxis(colour, -1, 0), photometric="rgb", planarconfig="separate"
        ),
    )


def mutate(data, rng):
    """The bytes with one to eight faults of random kinds."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 9)):
        # Heads decide most: half of the faults are there.
        end = min(len(data), 128) if rng.random() < 0.5 else len(data)
        place = int(rng.integers(max(end, 1)))
        match rng.integers(6):
            case 0:
                data[place : place + 1] = bytes([rng.integers(256)])
            case 1:
                del data[place : place + int(rng.integers(1, 64))]
            case 2:
                data[place:place] = rng.bytes(int(rng.integers(1, 64)))
            case 3:
                word = HUGE[rng.integers(len(HUGE))]
                data[place : place + len(word)] = word
            case 4:
                data[place : place + 16] = bytes(16)
            case _:
                del data[max(place, 8) :]
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FORMATS))
def test_damaged_files_are_read_or_refused(tmp_path, number):
    name, good = list(make_files())[number]
    path = tmp_path / name
    path.write_bytes(good)
    written = tmp_path / f"written{path.suffix}"
    assert images.read_picture(path, MOST_PIXELS).pixels.shape[-3:][0] in (24, 3)
    rng = np.random.default_rng([1, number])
    sizes, reasons = [], []
    tracemalloc.start()
    for count in range(COUNT // FORMATS):
        data = mutate(good, rng)
        path.write_bytes(data)
        began = time.perf_counter()
        tracemalloc.reset_peak()
        try:
            picture = images.read_picture(path, MOST_PIXELS)
            sizes.append(picture.pixels.size)
            # What was read can be written as well, with all that came with it.
            images.check_target(written, picture.pixels, picture)
            images.write_picture(written, picture.pixels, picture)
        except images.Refused as error:
            reasons.append(str(error).strip())
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES, (name, count)
        assert time.perf_counter() - began < MOST_SECONDS, (name, count)
    tracemalloc.stop()
    assert max(sizes, default=0) <= 4 * MOST_PIXELS
    assert reasons  # or nothing was damaged
    assert all(reasons)


def test_every_good_file_is_read(tmp_path):
    names = [name for name, _ in make_files()]
    assert len(names) == FORMATS
    for name, data in make_files():
        (tmp_path / name).write_bytes(data)
        assert images.read_picture(tmp_path / name, MOST_PIXELS).pixels.size
