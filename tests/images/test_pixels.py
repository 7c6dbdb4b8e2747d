"""Pixels of files of every format at full depth, and as many channels as asked for."""

import subprocess
import sys

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from sevnet_jax import images


@pytest.fixture
def rgb():
    return np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype(np.uint8)


@pytest.fixture
def rgb16():
    return np.random.RandomState(0).randint(0, 65536, (20, 30, 3)).astype(np.uint16)


@pytest.mark.parametrize("name", ["a.png", "a.PNG", "a.bmp", "a.tif", "a.ppm", "a.tga"])
def test_8bit_files_come_back_exactly(name, rgb, tmp_path):
    Image.fromarray(rgb).save(tmp_path / name)
    np.testing.assert_array_equal(images.read_pixels(tmp_path / name), rgb)
    assert images.read_size(tmp_path / name) == (20, 30)


def test_16bit_png_keeps_every_bit(rgb16, tmp_path):
    for name, pixels in {"rgb": rgb16, "grey": rgb16[..., 0].copy()}.items():
        path = tmp_path / f"{name}.png"
        path.write_bytes(imagecodecs.png_encode(pixels))
        expected = rgb16 if name == "rgb" else rgb16[..., :1]
        result = images.read_pixels(path)
        assert result.dtype == np.uint16
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_16bit_tiff_keeps_every_bit(compression, planar, rgb16, tmp_path):
    pixels = rgb16 if planar == "contig" else np.moveaxis(rgb16, -1, 0)
    path = tmp_path / "a.tiff"
    tifffile.imwrite(
        path, pixels, photometric="rgb", planarconfig=planar, compression=compression
    )
    np.testing.assert_array_equal(images.read_pixels(path), rgb16)
    assert images.read_size(path) == (20, 30)


def test_16bit_grey_of_other_formats_keeps_every_bit(rgb16, tmp_path):
    grey = rgb16[..., 0]
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 30 20 65535\n" + grey.astype(">u2").tobytes())
    result = images.read_pixels(path)
    assert result.dtype == np.uint16
    np.testing.assert_array_equal(result, grey[..., None])


MODES = {"L": 1, "LA": 2, "RGBA": 4, "P": 3, "1": 3, "CMYK": 3}


@pytest.mark.parametrize("mode", MODES)
def test_other_modes_are_read_as_pillow_reads_them(mode, rgb, tmp_path):
    ending = "tif" if mode == "CMYK" else "png"
    source = Image.fromarray(rgb).convert(mode)
    path = tmp_path / f"a.{ending}"
    source.save(path)
    result = images.read_pixels(path)
    assert result.shape == (20, 30, MODES[mode])
    colour, grey = images.to_channels(result, 3), images.to_channels(result, 1)
    np.testing.assert_array_equal(colour, np.asarray(source.convert("RGB")))
    expected = np.asarray(source.convert("RGB").convert("L"))
    np.testing.assert_array_equal(grey[..., 0], expected)


def test_luminance_is_pillows(rgb16):
    """All 8-bit values; for 16 bit, the same formula at full depth."""
    levels = np.arange(256, dtype=np.uint8)
    colours = np.stack(np.meshgrid(levels, levels[::15], levels[::15]), -1)[0]
    expected = np.asarray(Image.fromarray(colours).convert("L"))
    np.testing.assert_array_equal(images.to_channels(colours, 1)[..., 0], expected)
    found = images.to_channels(rgb16, 1)
    assert found.dtype == np.uint16
    weights = np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(found[..., 0], rgb16 @ weights, atol=1)
    white = np.full((1, 1, 3), 65535, np.uint16)
    assert images.to_channels(white, 1).item() == 65535


def test_many_channels_are_kept_and_never_made(tmp_path):
    planes = np.random.RandomState(0).randint(0, 256, (20, 30, 5)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", planes, photometric="minisblack",
                     planarconfig="contig")  # fmt: skip
    found = images.read_pixels(tmp_path / "a.tif")
    np.testing.assert_array_equal(images.to_channels(found, 5), planes)
    with pytest.raises(ValueError, match="has 5 channels, the network takes 3"):
        images.to_channels(found, 3)


def test_float_conversion_maps_the_largest_value_to_one():
    for dtype in (np.uint8, np.uint16):
        top = np.array([0, np.iinfo(dtype).max], dtype)
        np.testing.assert_array_equal(images.to_float(top), [0, 1])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "float32"])
def test_pixels_of_unknown_range_are_refused(dtype, rgb, tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, rgb[..., 0].astype(dtype))
    with pytest.raises(ValueError, match="of unknown range"):
        images.read_pixels(path)


def test_white_is_zero_in_some_tiffs(rgb16, tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, rgb16[..., 0], photometric="miniswhite")
    np.testing.assert_array_equal(
        images.read_pixels(path)[..., 0], 65535 - rgb16[..., 0]
    )


def test_16bit_colour_ppm_is_refused_not_cut(rgb16, tmp_path):
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6 30 20 65535\n" + rgb16.astype(">u2").tobytes())
    with pytest.raises(ValueError, match="16-bit colour PPM"):
        images.read_pixels(path)


def test_photos_stand_upright(rgb, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(rgb).save(tmp_path / "a.png", exif=exif)
    upright = images.read_pixels(tmp_path / "a.png")
    np.testing.assert_array_equal(upright, np.rot90(rgb, -1))


def test_bombs_are_refused_whoever_decodes(rgb16, tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(imagecodecs.png_encode(rgb16))
    tifffile.imwrite(tmp_path / "a.tif", rgb16, photometric="rgb")
    Image.fromarray(rgb16.astype(np.uint8)).save(tmp_path / "b.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for name in ("a.png", "a.tif", "b.png"):
        with pytest.raises((ValueError, Image.DecompressionBombError), match="pixels"):
            images.read_pixels(tmp_path / name)


def test_endings_are_known_from_the_first_call_on():
    """In a process of its own: Pillow loads its formats late."""
    code = "from sevnet_jax import images; print(*images.extensions())"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    endings = set(result.stdout.split())
    assert {".jpg", ".jpeg", ".png", ".tif", ".webp", ".bmp"} <= endings
    assert ".eps" not in endings


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["png", "tif"])
@pytest.mark.parametrize("depth", [8, 16])
def test_pixels_are_upright_at_every_depth(rgb, tmp_path, orientation, ending, depth):
    path = tmp_path / f"a.{ending}"
    exif = Image.Exif()
    exif[274] = orientation
    Image.fromarray(rgb).save(tmp_path / "plain.png", exif=exif)
    upright = ImageOps.exif_transpose(Image.open(tmp_path / "plain.png"))
    pixels = rgb if depth == 8 else rgb.astype(np.uint16) * 257
    if ending == "tif":
        tags = [(274, 3, 1, orientation, True)]
        tifffile.imwrite(path, pixels, photometric="rgb", extratags=tags)
    else:
        like = images.Picture(pixels, exif=exif.tobytes())
        images.write_picture(path, pixels, like)
    expected = np.asarray(upright).astype(pixels.dtype) * (257 if depth == 16 else 1)
    np.testing.assert_array_equal(images.read_pixels(path), expected)
    assert images.read_size(path) == expected.shape[:2]
