"""What the web page shows, and that the file one takes is what denoise.py writes."""

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from sevnet_jax import images
from sevnet_jax.inference import command, preview
from sevnet_jax.inference.denoiser import Denoiser

MANY = 10**6


def draw(rng, shape, dtype="uint8"):
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


@pytest.fixture
def write(rng, tmp_path):
    """A function that writes a picture with metadata, and returns its file."""

    def write(name, shape, dtype="uint8"):
        pixels = draw(rng, shape, dtype)
        exif = Image.Exif()
        exif[271], exif[274] = "Maker", 6  # turned
        source = images.Picture(
            pixels, icc=b"a profile", exif=exif.tobytes(), dpi=(72, 72), orientation=6
        )
        images.write_picture(tmp_path / name, pixels, source)
        return tmp_path / name

    return write


@pytest.fixture
def restore(denoiser, tmp_path):
    folder = tmp_path / "page"
    folder.mkdir()
    return lambda path: preview.restore(denoiser, path, folder, max_pixels=MANY)


FILES = [
    ("colour.png", (9, 13, 3), "uint8"),
    ("deep.png", (9, 13, 4), "uint16"),
    ("grey.png", (9, 13), "uint8"),
    ("photo.jpg", (9, 13, 3), "uint8"),
    ("photo.webp", (9, 13, 3), "uint8"),
    ("float.tif", (9, 13, 3), "float32"),
    ("stack.tif", (2, 9, 13, 3), "uint16"),
]


@pytest.mark.parametrize(("name", "shape", "dtype"), FILES)
def test_the_file_is_what_the_command_writes(
    write, restore, weights_file, tmp_path, name, shape, dtype
):
    source = write(name, shape, dtype)
    result = restore(source)
    taken = {s: result.save(s) for s in (0.35, 1)}
    for strength, found in taken.items():
        expected = tmp_path / "out" / f"{strength}{source.suffix}"
        argv = [source, "-o", expected, "--strength", strength, "--quiet"]
        assert command.main([*map(str, argv), "--weights", str(weights_file)]) == 0
        assert found.read_bytes() == expected.read_bytes()
        assert found.name == f"{source.stem}_denoised{source.suffix}"
    assert taken[1].read_bytes() != taken[0.35].read_bytes()


def test_other_strengths_restore_nothing(write, restore, monkeypatch):
    result = restore(write("a.png", (9, 13, 3)))
    monkeypatch.setattr(Denoiser, "__call__", None)
    before, half = result.show(0.5)
    assert result.show(1)[0] == before
    pixels = [np.asarray(Image.open(path)) for path in (before, half)]
    assert (pixels[0] != pixels[1]).any()
    assert result.save(0.5).exists()


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif"])
def test_a_turned_photo_is_shown_upright_in_its_colours(write, restore, name):
    for path in restore(write(name, (9, 13, 3))).show(1):
        with Image.open(path) as shown:
            assert ImageOps.exif_transpose(shown).size == (9, 13)
            assert shown.info["icc_profile"] == b"a profile"


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ((9, 13), (9, 13)),
        ((9, 13, 2), (9, 13)),
        ((9, 13, 3), (9, 13, 3)),
        ((9, 13, 4), (9, 13, 3)),
        ((9, 13, 7), (9, 13, 3)),
        ((5, 9, 13, 1), (9, 13)),
    ],
)
def test_what_browsers_cannot_show_is_left_out(rng, shape, shown):
    pixels = draw(rng, shape)
    found = preview.shrink(pixels, 0, 255)
    assert (found.shape, found.dtype) == (shown, np.uint8)
    first = pixels[0] if len(shape) == 4 else pixels
    np.testing.assert_array_equal(found.ravel()[0], first.ravel()[0])


def test_large_images_are_shown_smaller(monkeypatch):
    monkeypatch.setattr(preview, "SHOWN_PIXELS", 100)
    pixels = np.zeros((40, 30, 3), np.uint8)
    pixels[:20] = 200
    shown = preview.shrink(pixels, 0, 255)
    assert shown.shape == (10, 8, 3)  # every 16 pixels are one: 1200 / 16 <= 100
    assert (shown[:5] == 200).all()


def test_sides_that_no_jpeg_can_have_are_shown_shorter(tmp_path):
    shown = preview.shrink(np.zeros((3, 70_000), np.uint8), 0, 255)
    assert shown.shape == (2, 35_000)
    preview.write_shown(tmp_path, shown, images.Picture(shown))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (np.uint8([0, 51, 255]), [0, 51, 255]),
        (np.uint16([0, 819, 4095]), [0, 51, 255]),  # a camera's 12 bit
        (np.float32([0, 0.2, 0.6]), [0, 51, 153]),
        (np.float64([-5e9, 0, 5e9]), [0, 128, 255]),
        (np.float32([7, 7, 7]), [0, 0, 0]),
    ],
)
def test_every_unit_can_be_seen(values, shown):
    found = preview.shrink(values[None], *preview.find_range(values[None]))
    np.testing.assert_array_equal(found[0], shown)


def test_it_says_what_was_done(tmp_path, rng):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, draw(rng, (2, 9, 13), "float32"))
    stub = {"picture": images.read_picture(path, MANY), "notes": ("one", "two")}
    restored = preview.Restored(pixels=stub["picture"].pixels, **stub)
    result = preview.Result(path, restored, tmp_path, path, None, None)
    assert str(result) == "a.tif: 13 x 9, 32 bit float; one; two"
