"""What a file holds comes back from a file: bits, channels, metadata."""

import struct
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps, PngImagePlugin

from sevnet_jax import images
from sevnet_jax.images import png

MANY = 10**9
ICC = b"not a real profile, but kept byte for byte"


def draw(rng, shape, dtype):
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


LOSSLESS = [
    *((".png", dtype, c) for dtype in ("uint8", "uint16") for c in (0, 2, 3, 4)),
    *(
        (".tif", dtype, c)
        for dtype in ("uint8", "uint16", "float16", "float32", "float64")
        for c in (0, 2, 3, 4)
    ),
    (".bmp", "uint8", 0),
    (".bmp", "uint8", 3),
]


@pytest.mark.parametrize(("ending", "dtype", "channels"), LOSSLESS)
def test_pixels_survive(rng, tmp_path, ending, dtype, channels):
    pixels = draw(rng, (5, 7, channels) if channels else (5, 7), dtype)
    path = tmp_path / f"a{ending}"
    images.write_picture(path, pixels, images.Picture(pixels))
    found = images.read_picture(path, MANY).pixels
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("ending", [".jpg", ".webp"])
def test_lossy_files_stay_close(rng, tmp_path, ending):
    coarse = rng.integers(0, 256, (4, 4, 3), np.uint8)
    pixels = np.asarray(Image.fromarray(coarse).resize((32, 32), Image.BICUBIC))
    images.write_picture(tmp_path / f"a{ending}", pixels, images.Picture(pixels))
    found = images.read_picture(tmp_path / f"a{ending}", MANY).pixels
    assert np.abs(found.astype(int) - pixels).mean() < 3


def make_exif():
    exif = Image.Exif()
    exif[274] = 6  # turned
    exif[271] = "Maker"
    return exif.tobytes()


@pytest.mark.parametrize("ending", [".png", ".jpg", ".webp"])
def test_metadata_survive_in_8_bit(rng, tmp_path, ending):
    source, target = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    pixels = draw(rng, (8, 8, 3), "uint8")
    options = {"icc_profile": ICC, "exif": make_exif()}
    if ending != ".webp":
        options["dpi"] = (300, 200)
    Image.fromarray(pixels).save(source, **options)
    picture = images.read_picture(source, MANY)
    images.write_picture(target, picture.pixels, picture)
    with Image.open(target) as image:
        assert image.info["icc_profile"] == ICC
        assert image.getexif()[271] == "Maker"
        assert image.getexif()[274] == 6
        if ending != ".webp":
            np.testing.assert_allclose(image.info["dpi"], (300, 200), rtol=1e-3)


def test_metadata_survive_in_16_bit_png(rng, tmp_path):
    pixels = draw(rng, (8, 8, 3), "uint16")
    first = images.Picture(pixels, icc=ICC, exif=make_exif(), dpi=(300, 200))
    images.write_picture(tmp_path / "a.png", pixels, first)
    picture = images.read_picture(tmp_path / "a.png", MANY)
    images.write_picture(tmp_path / "b.png", picture.pixels, picture)
    for name in ("a.png", "b.png"):
        with Image.open(tmp_path / name) as image:
            image.load()
            assert image.info["icc_profile"] == ICC
            assert image.getexif()[271] == "Maker"
            np.testing.assert_allclose(image.info["dpi"], (300, 200), rtol=1e-3)
    np.testing.assert_array_equal(picture.pixels, pixels)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_what_else_a_png_says_survives(rng, tmp_path, dtype):
    pixels = draw(rng, (8, 8, 3), dtype)
    text = PngImagePlugin.PngInfo()
    text.add_text("Author", "somebody")
    text.add_itxt("Title", "ä")
    text.add(b"gAMA", struct.pack(">I", 45455))
    Image.fromarray(draw(rng, (8, 8, 3), "uint8")).save(
        tmp_path / "texts.png", pnginfo=text
    )
    chunks = png.read_chunks((tmp_path / "texts.png").read_bytes())
    images.write_picture(tmp_path / "a.png", pixels, images.Picture(pixels, png=chunks))
    picture = images.read_picture(tmp_path / "a.png", MANY)
    images.write_picture(tmp_path / "b.png", picture.pixels, picture)
    np.testing.assert_array_equal(
        images.read_picture(tmp_path / "b.png", MANY).pixels, pixels
    )
    with Image.open(tmp_path / "b.png") as image:
        assert image.info["Author"] == "somebody"
        assert image.info["Title"] == "ä"
        assert image.info["gamma"] == pytest.approx(0.45455)


@pytest.mark.parametrize("lossless", [True, False])
def test_a_webp_loses_no_more_than_it_had(rng, tmp_path, lossless):
    pixels = draw(rng, (16, 16, 3), "uint8")
    Image.fromarray(pixels).save(tmp_path / "a.webp", lossless=lossless)
    picture = images.read_picture(tmp_path / "a.webp", MANY)
    assert picture.lossy != lossless
    images.write_picture(tmp_path / "b.webp", pixels, picture)
    again = images.read_picture(tmp_path / "b.webp", MANY).pixels
    assert (again == pixels).all() == lossless


def test_a_resolution_that_no_png_can_hold_is_left_out(tmp_path):
    pixels = np.zeros((4, 4, 3), np.uint8)
    source = images.Picture(pixels, dpi=(1e12, 1e12))
    images.write_picture(tmp_path / "a.png", pixels, source)
    assert images.read_picture(tmp_path / "a.png", MANY).dpi is None


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_transparent_colour_becomes_alpha(tmp_path, mode):
    colour = 0 if mode == "L" else (0, 0, 0)
    Image.new(mode, (4, 4)).save(tmp_path / "a.png", transparency=colour)
    pixels = images.read_picture(tmp_path / "a.png", MANY).pixels
    assert pixels.shape[-1] == len(mode) + 1
    assert (pixels[..., -1] == 0).all()


@pytest.mark.parametrize("target", [".png", ".webp", ".tif", ".bmp", ".jpg"])
@pytest.mark.parametrize("start", [".png", ".webp", ".tif", ".jpg"])
def test_a_turned_photo_stays_turned(rng, tmp_path, start, target):
    """Whatever the format: by its tag, or by its pixels where it has no tag."""
    coarse = rng.integers(0, 256, (2, 3, 3), np.uint8)
    upright = np.repeat(np.repeat(coarse, 16, 0), 16, 1)
    exif = Image.Exif()
    exif[274] = 6
    first = tmp_path / f"a{start}"
    Image.fromarray(np.rot90(upright)).save(first, exif=exif, quality=95)
    picture = images.read_picture(first, MANY)
    images.write_picture(tmp_path / f"b{target}", picture.pixels, picture)
    with Image.open(tmp_path / f"b{target}") as image:
        found = np.asarray(ImageOps.exif_transpose(image))
    assert found.shape == upright.shape
    assert np.abs(found.astype(int) - upright).mean() < 8


def test_a_file_without_exif_gets_none(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    picture = images.read_picture(tmp_path / "a.png", MANY)
    assert picture.exif is None


def test_a_palette_becomes_colour(rng, tmp_path):
    image = Image.fromarray(draw(rng, (8, 8, 3), "uint8"))
    image.quantize(8).save(tmp_path / "a.png")
    picture = images.read_picture(tmp_path / "a.png", MANY)
    assert picture.pixels.shape == (8, 8, 3)
    assert "palette" in picture.note


@pytest.mark.parametrize(
    ("name", "pixels", "message"),
    [
        ("a.jpg", np.zeros((4, 4, 3), np.uint16), "cannot hold uint16"),
        ("a.png", np.zeros((4, 4, 3), np.float32), "cannot hold float32"),
        ("a.webp", np.zeros((4, 4), np.uint16), "cannot hold uint16"),
        ("a.png", np.zeros((2, 4, 4, 3), np.uint8), "several pages"),
        ("a.xyz", np.zeros((4, 4, 3), np.uint8), "cannot write"),
        ("a", np.zeros((4, 4, 3), np.uint8), "cannot write"),
        ("a.jpg", np.zeros((4, 4, 4), np.uint8), "'.jpg' has no alpha"),
        ("a.bmp", np.zeros((4, 4, 2), np.uint8), "'.bmp' has no alpha"),
        ("a.gif", np.zeros((4, 4, 3), np.uint8), "cannot write"),
    ],
)
def test_nothing_is_silently_reduced(tmp_path, name, pixels, message):
    with pytest.raises(ValueError, match=message):
        images.write_picture(tmp_path / name, pixels, images.Picture(pixels))
    assert not any(tmp_path.iterdir())


def save_cmyk(path):
    Image.new("CMYK", (4, 4)).save(path)


def save_animation(path):
    frames = [Image.new("RGB", (4, 4), c) for c in ("red", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def save_4_bit(path):
    pixels = np.zeros((4, 4), np.uint8)
    tifffile.imwrite(path, pixels, bitspersample=4)


def save_ycbcr(path):
    Image.new("YCbCr", (4, 4)).save(path)


def save_two_kinds(path):
    with tifffile.TiffWriter(path) as file:
        file.write(np.zeros((4, 4, 3), np.uint8), photometric="rgb")
        file.write(np.zeros((5, 5), np.uint8), photometric="minisblack")


def save_truncated(path):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    path.write_bytes(path.read_bytes()[:500])


def save_truncated_16_bit(path):
    pixels = np.random.default_rng(0).integers(0, 65535, (64, 64, 3), np.uint16)
    path.write_bytes(imagecodecs.png_encode(pixels)[:500])


def save_truncated_tiff(path):
    tifffile.imwrite(path, np.zeros((64, 64, 3), np.uint16), photometric="rgb")
    path.write_bytes(path.read_bytes()[:500])


def save_bomb(path):
    """A PNG of 60000 x 60000 pixels in a few bytes."""

    def chunk(name, data):
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    path.write_bytes(
        png.SIGNATURE
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", b"")
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("name", "save", "message"),
    [
        ("a.png", lambda p: p.write_bytes(b""), "the file is empty"),
        ("a.png", lambda p: p.write_text("hello"), "not an image"),
        ("a.tif", lambda p: p.write_bytes(b"II*\0junk"), "damaged"),
        ("a.jpg", save_cmyk, "'CMYK'"),
        ("a.webp", save_animation, "animated"),
        ("a.gif", lambda p: Image.new("P", (4, 4)).save(p), "not an image in one of"),
        ("a.jp2", lambda p: Image.new("RGB", (4, 4)).save(p), "not an image in one of"),
        ("a.tif", save_4_bit, "a TIFF of 4 bit"),
        ("a.tif", save_ycbcr, "kind YCBCR"),
        ("a.tif", save_two_kinds, "2 different images"),
        ("a.png", save_truncated, "damaged"),
        ("a.png", save_truncated_16_bit, "damaged"),
        ("a.tif", save_truncated_tiff, "damaged"),
        ("a.png", save_bomb, "60000x60000 is more than 1000000000 pixels"),
        ("a.png", lambda p: Image.new("1", (4, 4)).save(p), "its pixels are '1'"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, save, message):
    save(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        images.read_picture(tmp_path / name, MANY)


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.jpg"])
def test_exif_that_is_none_does_not_cost_the_picture(rng, tmp_path, name):
    pixels = rng.integers(0, 256, (5, 7, 3), np.uint8)
    path = tmp_path / name
    Image.fromarray(pixels).save(
        path, exif=b"Exif\0\0" + bytes(12), dpi=(72, 72), lossless=True
    )
    picture = images.read_picture(path, 100)
    assert picture.exif is None
    assert "EXIF" in picture.note
    with Image.open(path) as image:
        np.testing.assert_array_equal(picture.pixels, np.asarray(image))
    np.testing.assert_array_equal(images.read_pixels(path), picture.pixels)


@pytest.mark.parametrize("tag", [271, 274, 282, 306])
def test_damaged_exif_does_not_cost_the_picture(rng, tmp_path, tag):
    pixels = draw(rng, (8, 8, 3), "uint8")
    kind = 3 if tag in (271, 306) else 2  # a number for a text, a text for a number
    entry = struct.pack("<HHII", tag, kind, 2, 0x00410041)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4)
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    picture = images.read_picture(tmp_path / "a.png", MANY)
    np.testing.assert_array_equal(picture.pixels, pixels)
    assert picture.orientation == 1
    images.write_picture(tmp_path / "b.png", pixels, picture)


@pytest.mark.parametrize(("ending", "longest"), [(".webp", 16383), (".jpg", 65500)])
def test_sides_that_a_format_cannot_have_are_refused(tmp_path, ending, longest):
    path = tmp_path / f"a{ending}"
    pixels = np.zeros((1, longest + 1), np.uint8)
    with pytest.raises(images.Refused, match=f"at most {longest} pixels"):
        images.check_target(path, pixels, images.Picture(pixels))
    images.write_picture(path, pixels[:, 1:], images.Picture(pixels))
    assert images.read_size(path) == (1, longest)


def test_the_jpeg_of_a_phone_is_lossy(rng, tmp_path):
    frames = [Image.fromarray(draw(rng, (8, 8, 3), "uint8")) for _ in range(2)]
    path = tmp_path / "a.jpg"
    frames[0].save(path, format="MPO", save_all=True, append_images=frames[1:])
    picture = images.read_picture(path, MANY)
    assert picture.lossy
    assert "first picture" in picture.note


@pytest.mark.parametrize("ending", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("kind", [".jpg", ".tif"])
def test_letters_beyond_ascii_survive(tmp_path, kind, ending):
    exif = Image.Exif()
    exif[315], exif[33432] = "Jörg Müller".encode(), "© 2024".encode()
    exif.get_ifd(34665)[34855] = 800
    pixels = np.zeros((8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif.tobytes())
    picture = images.read_picture(tmp_path / "a.jpg", MANY)
    if kind == ".tif":
        images.write_picture(tmp_path / "a.tif", pixels, picture)
        picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / f"b{ending}", pixels, picture)
    with Image.open(tmp_path / f"b{ending}") as image:
        found = image.getexif()
        assert found.get_ifd(34665)[34855] == 800
    for code, text in ((315, "Jörg Müller"), (33432, "© 2024")):
        value = found[code]
        raw = value if isinstance(value, bytes) else value.encode("latin-1")
        assert raw.rstrip(b"\0").decode() == text


def test_an_orientation_in_xmp_survives_beside_exif(tmp_path):
    exif = Image.Exif()
    exif[271] = "Maker"
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="6"/></x:xmpmeta>'
    pixels = np.zeros((8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, xmp=xmp)
    picture = images.read_picture(tmp_path / "a.jpg", MANY)
    images.write_picture(tmp_path / "b.jpg", pixels, picture)
    with Image.open(tmp_path / "b.jpg") as image:
        assert (image.getexif()[271], image.getexif()[274]) == ("Maker", 6)


def test_colours_under_what_is_transparent_survive_in_webp(rng, tmp_path):
    pixels = draw(rng, (16, 16, 4), "uint8")
    pixels[..., 3] = np.where(pixels[..., 3] > 128, 255, 0)
    path = tmp_path / "a.webp"
    images.write_picture(path, pixels, images.Picture(pixels))
    np.testing.assert_array_equal(images.read_picture(path, MANY).pixels, pixels)
