"""What a file holds comes back from a file: bits, channels, metadata."""

import struct
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps, PngImagePlugin, TiffImagePlugin

from sevnet_jax.inference import images, png

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
    images.write(path, pixels, images.Picture(pixels))
    found = images.read(path, MANY).pixels
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("ending", [".jpg", ".webp"])
def test_lossy_files_stay_close(rng, tmp_path, ending):
    coarse = rng.integers(0, 256, (4, 4, 3), np.uint8)
    pixels = np.asarray(Image.fromarray(coarse).resize((32, 32), Image.BICUBIC))
    images.write(tmp_path / f"a{ending}", pixels, images.Picture(pixels))
    found = images.read(tmp_path / f"a{ending}", MANY).pixels
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
    picture = images.read(source, MANY)
    images.write(target, picture.pixels, picture)
    with Image.open(target) as image:
        assert image.info["icc_profile"] == ICC
        assert image.getexif()[271] == "Maker"
        assert image.getexif()[274] == 6
        if ending != ".webp":
            np.testing.assert_allclose(image.info["dpi"], (300, 200), rtol=1e-3)


def test_metadata_survive_in_16_bit_png(rng, tmp_path):
    pixels = draw(rng, (8, 8, 3), "uint16")
    first = images.Picture(pixels, icc=ICC, exif=make_exif(), dpi=(300, 200))
    images.write(tmp_path / "a.png", pixels, first)
    picture = images.read(tmp_path / "a.png", MANY)
    images.write(tmp_path / "b.png", picture.pixels, picture)
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
    images.write(tmp_path / "a.png", pixels, images.Picture(pixels, png=chunks))
    picture = images.read(tmp_path / "a.png", MANY)
    images.write(tmp_path / "b.png", picture.pixels, picture)
    np.testing.assert_array_equal(images.read(tmp_path / "b.png", MANY).pixels, pixels)
    with Image.open(tmp_path / "b.png") as image:
        assert image.info["Author"] == "somebody"
        assert image.info["Title"] == "ä"
        assert image.info["gamma"] == pytest.approx(0.45455)


def test_metadata_survive_in_tiff(rng, tmp_path):
    pixels = draw(rng, (8, 8, 3), "uint16")
    tifffile.imwrite(
        tmp_path / "a.tif",
        pixels,
        photometric="rgb",
        compression="zlib",
        resolution=(300, 200),
        resolutionunit="inch",
        description="a scan",
        extratags=[(274, 3, 1, 6, True), (34675, 7, len(ICC), ICC, True)],
    )
    picture = images.read(tmp_path / "a.tif", MANY)
    images.write(tmp_path / "b.tif", picture.pixels, picture)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        tags = file.pages[0].tags
        assert tags[274].value == 6
        assert tags[34675].value == ICC
        assert tags[270].value == "a scan"
        assert file.pages[0].compression.name == "ADOBE_DEFLATE"
        x, y = tags["XResolution"].value, tags["YResolution"].value
        assert (x[0] / x[1], y[0] / y[1]) == (300, 200)


@pytest.fixture
def shot():
    """EXIF of a photo: maker, exposure, lens, a note, place."""
    exif = Image.Exif()
    exif[271] = "A maker"
    exif.get_ifd(34665).update({34855: 800, 42036: "A lens", 37500: b"\0\1note" * 9})
    exif.get_ifd(34665)[33434] = TiffImagePlugin.IFDRational(1, 250)
    exif.get_ifd(34853).update({1: "N", 2: (48.0, 8.0, 30.5)})
    return exif


@pytest.mark.parametrize(
    ("first", "second"), [("a.jpg", "b.tif"), ("a.tif", "b.tif"), ("a.tif", "b.png")]
)
def test_the_shot_survives_into_and_out_of_tiff(rng, tmp_path, shot, first, second):
    pixels = draw(rng, (8, 8, 3), "uint8")
    shot[274] = 6
    source = images.Picture(pixels, exif=shot.tobytes(), orientation=6)
    images.write(tmp_path / first, pixels, source)
    picture = images.read(tmp_path / first, MANY)
    assert picture.orientation == 6
    images.write(tmp_path / second, picture.pixels, picture)
    with Image.open(tmp_path / second) as image:
        found = image.getexif()
        assert found[271] == "A maker"
        for code in (34665, 34853):
            assert dict(found.get_ifd(code)) == dict(shot.get_ifd(code))
        assert found[274] == 6
    again = images.read(tmp_path / second, MANY)
    np.testing.assert_array_equal(again.pixels, picture.pixels)


def test_a_damaged_shot_does_not_cost_the_picture(rng, tmp_path, shot):
    pixels = draw(rng, (8, 8, 3), "uint8")
    path = tmp_path / "a.tif"
    images.write(path, pixels, images.Picture(pixels, exif=shot.tobytes()))
    pointer = path.read_bytes().index(struct.pack("<HHI", 34665, 4, 1)) + 8
    with path.open("r+b") as file:
        file.seek(pointer)
        file.write(struct.pack("<I", 2**31))
    picture = images.read(path, MANY)
    np.testing.assert_array_equal(picture.pixels, pixels)


def test_planes_of_colour_in_a_stack_are_colours(rng, tmp_path):
    planes = draw(rng, (3, 3, 8, 9), "uint16")  # pages, colours
    tifffile.imwrite(
        tmp_path / "a.tif", planes, photometric="rgb", planarconfig="separate"
    )
    found = images.read(tmp_path / "a.tif", MANY).pixels
    np.testing.assert_array_equal(found, np.moveaxis(planes, 1, -1))


def test_a_stack_that_lost_pages_is_refused(rng, tmp_path, caplog):
    path = tmp_path / "a.tif"
    pages = draw(rng, (6, 32, 32), "uint16")
    tifffile.imwrite(path, pages, compression="zlib", metadata=None)
    with tifffile.TiffFile(path) as file:
        cut = file.pages[3].offset
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(images.Refused, match="damaged"):
        images.read(path, MANY)
    assert not caplog.records


@pytest.mark.parametrize("axes", ["TZYX", "ZCYX"])
def test_stacks_of_microscopes_keep_their_axes(rng, tmp_path, axes):
    pixels = draw(rng, (2, 3, 8, 9), "uint16")
    metadata = {"axes": axes, "spacing": 0.5, "unit": "um"}
    tifffile.imwrite(tmp_path / "a.tif", pixels, imagej=True, metadata=metadata)
    picture = images.read(tmp_path / "a.tif", MANY)
    images.write(tmp_path / "b.tif", picture.pixels, picture)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.series[0].axes == axes
        assert file.imagej_metadata["spacing"] == 0.5
        np.testing.assert_array_equal(file.asarray(), pixels)


@pytest.mark.parametrize("lossless", [True, False])
def test_a_webp_loses_no_more_than_it_had(rng, tmp_path, lossless):
    pixels = draw(rng, (16, 16, 3), "uint8")
    Image.fromarray(pixels).save(tmp_path / "a.webp", lossless=lossless)
    picture = images.read(tmp_path / "a.webp", MANY)
    assert picture.lossy != lossless
    images.write(tmp_path / "b.webp", pixels, picture)
    again = images.read(tmp_path / "b.webp", MANY).pixels
    assert (again == pixels).all() == lossless


def test_a_resolution_that_no_png_can_hold_is_left_out(tmp_path):
    pixels = np.zeros((4, 4, 3), np.uint8)
    source = images.Picture(pixels, dpi=(1e12, 1e12))
    images.write(tmp_path / "a.png", pixels, source)
    assert images.read(tmp_path / "a.png", MANY).dpi is None


@pytest.mark.parametrize("shape", [(3, 6, 7), (2, 3, 6, 7), (3, 6, 7, 3)])
def test_stacks_keep_their_shape(rng, tmp_path, shape):
    stack = draw(rng, shape, "uint16")
    kind = "rgb" if shape[-1] == 3 else "minisblack"
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric=kind)
    picture = images.read(tmp_path / "a.tif", MANY)
    assert picture.pixels.ndim == 4
    images.write(tmp_path / "b.tif", picture.pixels, picture)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), stack)


def test_pages_count_against_the_limit(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((50, 10, 10), np.uint8))
    images.read(tmp_path / "a.tif", 5000)
    with pytest.raises(ValueError, match="is more than 4999 pixels"):
        images.read(tmp_path / "a.tif", 4999)


def test_white_as_zero_is_turned_round(rng, tmp_path):
    pixels = draw(rng, (5, 7), "uint16")
    tifffile.imwrite(tmp_path / "a.tif", 65535 - pixels, photometric="miniswhite")
    picture = images.read(tmp_path / "a.tif", MANY)
    np.testing.assert_array_equal(picture.pixels, pixels)
    images.write(tmp_path / "b.tif", picture.pixels, picture)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), pixels)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_transparent_colour_becomes_alpha(tmp_path, mode):
    colour = 0 if mode == "L" else (0, 0, 0)
    Image.new(mode, (4, 4)).save(tmp_path / "a.png", transparency=colour)
    pixels = images.read(tmp_path / "a.png", MANY).pixels
    assert pixels.shape[-1] == len(mode) + 1
    assert (pixels[..., -1] == 0).all()


def test_microscopes_keep_their_units(rng, tmp_path):
    """Pixels a micrometre have no unit in TIFF, and texts are not always ASCII."""
    stack = draw(rng, (3, 6, 7), "uint16")
    tifffile.imwrite(
        tmp_path / "a.tif",
        stack,
        imagej=True,
        resolution=(3.0, 3.0),
        metadata={"unit": "um", "axes": "ZYX"},
    )
    picture = images.read(tmp_path / "a.tif", MANY)
    images.write(tmp_path / "b.tif", picture.pixels, picture)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        x = file.pages[0].tags["XResolution"].value
        assert x[0] / x[1] == 3
        assert file.pages[0].tags["ResolutionUnit"].value == 1
    tifffile.imwrite(
        tmp_path / "c.ome.tif", stack, metadata={"PhysicalSizeXUnit": "µm"}
    )
    picture = images.read(tmp_path / "c.ome.tif", MANY)
    images.write(tmp_path / "d.tif", picture.pixels, picture)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "d.tif"), stack)


@pytest.mark.parametrize("target", [".png", ".webp", ".tif", ".bmp"])
def test_a_turned_photo_stays_turned(rng, tmp_path, target):
    """Whatever the format: by its tag, or by its pixels where it has no tag."""
    coarse = rng.integers(0, 256, (2, 3, 3), np.uint8)
    upright = np.repeat(np.repeat(coarse, 16, 0), 16, 1)
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(np.rot90(upright)).save(tmp_path / "a.png", exif=exif)
    picture = images.read(tmp_path / "a.png", MANY)
    images.write(tmp_path / f"b{target}", picture.pixels, picture)
    with Image.open(tmp_path / f"b{target}") as image:
        found = np.asarray(ImageOps.exif_transpose(image))
    assert found.shape == upright.shape
    assert np.abs(found.astype(int) - upright).mean() < 8


def test_a_file_without_exif_gets_none(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    picture = images.read(tmp_path / "a.png", MANY)
    assert picture.exif is None


def test_a_palette_becomes_colour(rng, tmp_path):
    image = Image.fromarray(draw(rng, (8, 8, 3), "uint8"))
    image.quantize(8).save(tmp_path / "a.png")
    picture = images.read(tmp_path / "a.png", MANY)
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
        images.write(tmp_path / name, pixels, images.Picture(pixels))
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
        images.read(tmp_path / name, MANY)
