"""TIFF files: stacks, planes, and all that they say beside their pixels."""

import logging
import struct
import threading

import numpy as np
import pytest
import tifffile
from PIL import Image, TiffImagePlugin

from sevnet_jax import images
from sevnet_jax.images import tiff

MANY = 10**9
ICC = b"not a real profile, but kept byte for byte"


def draw(rng, shape, dtype):
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


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
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / "b.tif", picture.pixels, picture)
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
    images.write_picture(tmp_path / first, pixels, source)
    picture = images.read_picture(tmp_path / first, MANY)
    assert picture.orientation == 6
    images.write_picture(tmp_path / second, picture.pixels, picture)
    with Image.open(tmp_path / second) as image:
        found = image.getexif()
        assert found[271] == "A maker"
        for code in (34665, 34853):
            assert dict(found.get_ifd(code)) == dict(shot.get_ifd(code))
        assert found[274] == 6
    again = images.read_picture(tmp_path / second, MANY)
    np.testing.assert_array_equal(again.pixels, picture.pixels)


def test_a_damaged_shot_does_not_cost_the_picture(rng, tmp_path, shot):
    pixels = draw(rng, (8, 8, 3), "uint8")
    path = tmp_path / "a.tif"
    images.write_picture(path, pixels, images.Picture(pixels, exif=shot.tobytes()))
    pointer = path.read_bytes().index(struct.pack("<HHI", 34665, 4, 1)) + 8
    with path.open("r+b") as file:
        file.seek(pointer)
        file.write(struct.pack("<I", 2**31))
    picture = images.read_picture(path, MANY)
    np.testing.assert_array_equal(picture.pixels, pixels)


def test_planes_of_colour_in_a_stack_are_colours(rng, tmp_path):
    planes = draw(rng, (3, 3, 8, 9), "uint16")  # pages, colours
    tifffile.imwrite(
        tmp_path / "a.tif", planes, photometric="rgb", planarconfig="separate"
    )
    found = images.read_picture(tmp_path / "a.tif", MANY).pixels
    np.testing.assert_array_equal(found, np.moveaxis(planes, 1, -1))


def test_a_stack_that_lost_pages_is_refused(rng, tmp_path, caplog):
    path = tmp_path / "a.tif"
    pages = draw(rng, (6, 32, 32), "uint16")
    tifffile.imwrite(path, pages, compression="zlib", metadata=None)
    with tifffile.TiffFile(path) as file:
        cut = file.pages[3].offset
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(images.Refused, match="damaged"):
        images.read_picture(path, MANY)
    assert not caplog.records


@pytest.mark.parametrize("axes", ["TZYX", "ZCYX"])
def test_stacks_of_microscopes_keep_their_axes(rng, tmp_path, axes):
    pixels = draw(rng, (2, 3, 8, 9), "uint16")
    metadata = {"axes": axes, "spacing": 0.5, "unit": "um"}
    tifffile.imwrite(tmp_path / "a.tif", pixels, imagej=True, metadata=metadata)
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / "b.tif", picture.pixels, picture)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.series[0].axes == axes
        assert file.imagej_metadata["spacing"] == 0.5
        np.testing.assert_array_equal(file.asarray(), pixels)


@pytest.mark.parametrize("shape", [(3, 6, 7), (2, 3, 6, 7), (3, 6, 7, 3)])
def test_stacks_keep_their_shape(rng, tmp_path, shape):
    stack = draw(rng, shape, "uint16")
    kind = "rgb" if shape[-1] == 3 else "minisblack"
    tifffile.imwrite(tmp_path / "a.tif", stack, photometric=kind)
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    assert picture.pixels.ndim == 4
    images.write_picture(tmp_path / "b.tif", picture.pixels, picture)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), stack)


def test_pages_count_against_the_limit(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((50, 10, 10), np.uint8))
    images.read_picture(tmp_path / "a.tif", 5000)
    with pytest.raises(ValueError, match="is more than 4999 pixels"):
        images.read_picture(tmp_path / "a.tif", 4999)


def test_white_as_zero_is_turned_round(rng, tmp_path):
    pixels = draw(rng, (5, 7), "uint16")
    tifffile.imwrite(tmp_path / "a.tif", 65535 - pixels, photometric="miniswhite")
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    np.testing.assert_array_equal(picture.pixels, pixels)
    images.write_picture(tmp_path / "b.tif", picture.pixels, picture)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "b.tif"), pixels)


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
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / "b.tif", picture.pixels, picture)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        x = file.pages[0].tags["XResolution"].value
        assert x[0] / x[1] == 3
        assert file.pages[0].tags["ResolutionUnit"].value == 1
    tifffile.imwrite(
        tmp_path / "c.ome.tif", stack, metadata={"PhysicalSizeXUnit": "µm"}
    )
    picture = images.read_picture(tmp_path / "c.ome.tif", MANY)
    images.write_picture(tmp_path / "d.tif", picture.pixels, picture)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "d.tif"), stack)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_pages_in_a_circle_are_refused(rng, tmp_path, big, order):
    """They have no end: without a look at them, reading would have none."""
    path = tmp_path / "a.tif"
    pages = rng.integers(0, 256, (2, 4, 6), np.uint8)
    tifffile.imwrite(
        path,
        pages,
        photometric="minisblack",
        metadata=None,
        bigtiff=big,
        byteorder=order,
    )
    assert images.read_picture(path, 1000).pixels.shape == (2, 4, 6, 1)
    with tifffile.TiffFile(path) as file:
        first, tags = file.pages[0].offset, len(file.pages[0].tags)
    counted, size, wide = (8, 20, "Q") if big else (2, 12, "I")
    data = bytearray(path.read_bytes())
    # Behind its tags, a page names the next one: here itself.
    struct.pack_into(order + wide, data, first + counted + size * tags, first)
    path.write_bytes(data)
    with pytest.raises(images.Refused, match="its pages form a loop"):
        images.read_picture(path, 1000)


def test_a_damaged_file_does_not_harm_what_another_thread_reads():
    logger = logging.getLogger("tifffile")
    with tiff._watch_for_damage():
        other = threading.Thread(target=logger.error, args=["invalid page offset"])
        other.start()
        other.join()
    with pytest.raises(images.Refused, match="missing"), tiff._watch_for_damage():
        logger.error("invalid page offset")


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_bands_without_a_tag_that_counts_them_are_kept(rng, tmp_path, count):
    """It breaks the rules of TIFF, but such files exist."""
    pixels = draw(rng, (6, 9, count), "uint8")
    tifffile.imwrite(
        tmp_path / "a.tif",
        pixels,
        photometric="minisblack",
        planarconfig="contig",
        extrasamples=["unspecified"] * (count - 1),
    )
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        tag = file.pages[0].tags["ExtraSamples"]
        file.filehandle.seek(tag.offset)
        file.filehandle.write(struct.pack("<H", 65000))  # a tag that nobody knows
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    assert not picture.last_is_alpha
    images.write_picture(tmp_path / "b.tif", picture.pixels, picture)
    found = images.read_picture(tmp_path / "b.tif", MANY)
    assert not found.last_is_alpha
    np.testing.assert_array_equal(found.pixels, pixels)


@pytest.mark.parametrize("unit", [0, 9])
def test_an_unknown_unit_of_resolution_does_not_cost_the_picture(rng, tmp_path, unit):
    pixels = draw(rng, (6, 9, 3), "uint8")
    given = {"photometric": "rgb", "resolution": (300, 300), "resolutionunit": 2}
    tifffile.imwrite(tmp_path / "a.tif", pixels, **given)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        tag = file.pages[0].tags["ResolutionUnit"]
        file.filehandle.seek(tag.valueoffset)
        file.filehandle.write(struct.pack("<H", unit))
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / "b.tif", pixels, picture)
    found = images.read_picture(tmp_path / "b.tif", MANY)
    assert found.tiff["resolution"] == ((300, 300), 1)


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "target"),
    [
        ((6, 9, 20), "uint8", "contig", "b.tif"),  # more channels than rows
        ((3, 6, 9), "uint16", "separate", "b.png"),
    ],
)
def test_any_order_of_channels_can_be_written(
    rng, tmp_path, shape, dtype, layout, target
):
    pixels = draw(rng, shape, dtype)
    given = {"photometric": "rgb", "planarconfig": layout}
    tifffile.imwrite(tmp_path / "a.tif", pixels, **given)
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / target, picture.pixels, picture)
    found = images.read_picture(tmp_path / target, MANY)
    expected = np.moveaxis(pixels, 0, -1) if layout == "separate" else pixels
    np.testing.assert_array_equal(found.pixels, expected)


def test_a_place_out_of_the_file_is_damage(rng, tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", draw(rng, (6, 9), "uint8"), bigtiff=True)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        file.filehandle.seek(file.pages[0].tags["StripOffsets"].valueoffset)
        file.filehandle.write(struct.pack("<Q", 2**62))
    with pytest.raises(images.Refused, match="a damaged image"):
        images.read_picture(tmp_path / "a.tif", MANY)


@pytest.mark.parametrize("kind", ["assocalpha", "unassalpha"])
def test_alpha_is_alpha(rng, tmp_path, kind):
    tifffile.imwrite(
        tmp_path / "a.tif",
        draw(rng, (6, 9, 4), "uint8"),
        photometric="rgb",
        extrasamples=[kind],
    )
    assert images.read_picture(tmp_path / "a.tif", MANY).last_is_alpha


@pytest.mark.parametrize("bands", [2, 4])
def test_bands_do_not_become_alpha(rng, tmp_path, bands):
    pixels = rng.integers(0, 256, (8, 9, bands), np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels, photometric="minisblack", planarconfig="contig")
    picture = images.read_picture(path, MANY)
    with pytest.raises(images.Refused, match="take its last channel for alpha"):
        images.write_picture(tmp_path / "b.png", pixels, picture)
    images.write_picture(tmp_path / "b.tif", pixels, picture)


@pytest.mark.parametrize(
    ("alpha", "fits"), [("unassalpha", True), ("assocalpha", False)]
)
def test_colours_multiplied_by_alpha_stay_in_a_tiff(rng, tmp_path, alpha, fits):
    pixels = rng.integers(0, 256, (8, 9, 4), np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels, photometric="rgb", extrasamples=[alpha])
    picture = images.read_picture(path, MANY)
    if fits:
        images.write_picture(tmp_path / "b.png", pixels, picture)
        return
    with pytest.raises(images.Refused, match="multiplied by alpha"):
        images.write_picture(tmp_path / "b.png", pixels, picture)


def test_the_place_on_earth_stays(rng, tmp_path):
    pixels = rng.integers(0, 256, (8, 9), np.uint8)
    keys = (1, 1, 0, 1, 1024, 0, 1, 1)
    tags = [
        (33550, 12, 3, (10.0, 10.0, 0.0), True),
        (33922, 12, 6, (0.0, 0.0, 0.0, 500000.0, 4000000.0, 0.0), True),
        (34735, 3, len(keys), keys, True),
        (34737, 2, 0, b"WGS 84|", True),
        (42113, 2, 0, b"-9999", True),
    ]
    tifffile.imwrite(tmp_path / "a.tif", pixels, extratags=tags)
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / "b.tif", pixels, picture)

    def read(name):
        with tifffile.TiffFile(tmp_path / name) as file:
            found = file.pages.first.tags
            return [(found[c].dtype, found[c].count, found[c].value) for c, *_ in tags]

    assert read("b.tif") == read("a.tif")


def test_the_alpha_of_an_inverted_image_is_not_inverted(tmp_path):
    pixels = np.full((4, 5, 2), (50, 200), np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(
        path, pixels, photometric="miniswhite", extrasamples=["unassalpha"],
        planarconfig="contig",
    )  # fmt: skip
    found = images.read_picture(path, MANY).pixels
    assert found[0, 0].tolist() == [205, 200]


def test_texts_survive_without_a_directory_of_the_shot(tmp_path):
    pixels = np.zeros((8, 8), np.uint8)
    tags = [(315, 2, 0, b"Ann", True), (270, 1, 5, b"hello", True)]
    tifffile.imwrite(tmp_path / "a.tif", pixels, metadata=None, extratags=tags)
    picture = images.read_picture(tmp_path / "a.tif", MANY)
    images.write_picture(tmp_path / "b.jpg", pixels, picture)
    with Image.open(tmp_path / "b.jpg") as image:
        assert image.getexif()[315] == "Ann"
    images.write_picture(tmp_path / "b.tif", pixels, picture)
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        assert file.pages.first.tags[270].value == "hello"


@pytest.mark.parametrize("text", ['{"shape": [8, 8, 3]}', "<OME>" + 70000 * "x"])
@pytest.mark.parametrize("target", [".jpg", ".png", ".webp"])
def test_what_programs_note_stays_out_of_other_formats(tmp_path, text, target):
    """It need not fit: the data of a JPEG file have 64 kB."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    tifffile.imwrite(
        tmp_path / "a.tif", pixels, description=text, metadata=None, software="ours"
    )
    picture = images.read_picture(tmp_path / "a.tif", 100)
    images.write_picture(tmp_path / f"b{target}", pixels, picture)
    with Image.open(tmp_path / f"b{target}") as image:
        exif = image.getexif()
    assert {code: exif[code] for code in exif} == {305: "ours"}


def test_no_directory_points_into_the_other_file(tmp_path):
    exif = Image.Exif()
    exif.get_ifd(34665).update({34855: 800, 40965: {1: "R98"}})
    pixels = np.zeros((8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif.tobytes())
    picture = images.read_picture(tmp_path / "a.jpg", MANY)
    images.write_picture(tmp_path / "b.tif", pixels, picture)
    with Image.open(tmp_path / "b.tif") as image:
        found = image.getexif().get_ifd(34665)
    assert found[34855] == 800
    assert 40965 not in found
