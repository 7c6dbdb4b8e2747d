"""Folders, TFDS and mixtures: every format at full depth, every fault named."""

import logging
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from sevnet_jax.data import images, sources


@pytest.fixture
def rgb():
    return np.random.RandomState(0).randint(0, 256, (20, 30, 3)).astype(np.uint8)


@pytest.fixture
def rgb16():
    return np.random.RandomState(0).randint(0, 65536, (20, 30, 3)).astype(np.uint16)


@pytest.mark.parametrize("name", ["a.png", "a.PNG", "a.bmp", "a.tif", "a.ppm", "a.tga"])
def test_8bit_files_come_back_exactly(name, rgb, tmp_path):
    Image.fromarray(rgb).save(tmp_path / name)
    np.testing.assert_array_equal(images.read(tmp_path / name), rgb)
    assert images.read_size(tmp_path / name) == (20, 30)


def test_16bit_png_keeps_every_bit(rgb16, tmp_path):
    imagecodecs = pytest.importorskip("imagecodecs")

    for name, pixels in {"rgb": rgb16, "grey": rgb16[..., 0].copy()}.items():
        path = tmp_path / f"{name}.png"
        path.write_bytes(imagecodecs.png_encode(pixels))
        expected = rgb16 if name == "rgb" else rgb16[..., [0, 0, 0]]
        result = images.read(path)
        assert result.dtype == np.uint16
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_16bit_tiff_keeps_every_bit(compression, planar, rgb16, tmp_path):
    tifffile = pytest.importorskip("tifffile")

    pixels = rgb16 if planar == "contig" else np.moveaxis(rgb16, -1, 0)
    path = tmp_path / "a.tiff"
    tifffile.imwrite(
        path, pixels, photometric="rgb", planarconfig=planar, compression=compression
    )
    np.testing.assert_array_equal(images.read(path), rgb16)
    assert images.read_size(path) == (20, 30)


def test_16bit_grey_of_other_formats_keeps_every_bit(rgb16, tmp_path):
    grey = rgb16[..., 0]
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5 30 20 65535\n" + grey.astype(">u2").tobytes())
    result = images.read(path)
    assert result.dtype == np.uint16
    np.testing.assert_array_equal(result, grey[..., None].repeat(3, -1))


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK", "YCbCr"])
def test_other_modes_become_rgb(mode, rgb, tmp_path):
    ending = "tif" if mode in ("CMYK", "YCbCr") else "png"
    source = Image.fromarray(rgb).convert(mode)
    path = tmp_path / f"a.{ending}"
    source.save(path)
    result = images.read(path)
    assert result.shape == (20, 30, 3)
    np.testing.assert_array_equal(result, np.asarray(source.convert("RGB")))


def test_float_conversion_maps_the_largest_value_to_one():
    for dtype in (np.uint8, np.uint16):
        top = np.array([0, np.iinfo(dtype).max], dtype)
        np.testing.assert_array_equal(images.to_float(top), [0, 1])


@pytest.fixture
def folder(rgb, tmp_path):
    """Two good images, one of them deeper; one tiny, two broken, one not an image."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    Image.fromarray(rgb).save(tmp_path / "a.png")
    Image.fromarray(255 - rgb).save(tmp_path / "deep" / "er" / "b.png")
    Image.fromarray(rgb[:4, :4]).save(tmp_path / "tiny.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "not.jpg").write_bytes(b"no image at all")
    (tmp_path / "notes.txt").write_text("not even by name")
    return tmp_path


def test_folder_skips_names_and_counts_what_it_cannot_use(folder, rgb, caplog):
    caplog.set_level(logging.WARNING)
    source = sources.Folder(folder, min_side=16)
    seen = [source[i] for i in range(len(source))] + [source[i] for i in range(3)]
    assert source.skipped == 3
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3  # once each, though asked twice
    for name in ("tiny.png", "cut.png", "not.jpg"):
        assert sum(name in line and "\n" not in line for line in lines) == 1
    found = {image.tobytes() for image in seen}
    assert found == {rgb.tobytes(), (255 - rgb).tobytes()}


def test_a_broken_image_is_replaced_whatever_was_asked_before(folder):
    forward = sources.Folder(folder, min_side=16)
    backward = sources.Folder(folder, min_side=16)
    one = [forward[i] for i in range(len(forward))]
    other = [backward[i] for i in reversed(range(len(backward)))][::-1]
    np.testing.assert_array_equal(one, other)


def test_cache_keeps_to_its_budget_and_spares_decoding(folder, rgb, monkeypatch):
    reads = []
    true_read = images.read
    monkeypatch.setattr(images, "read", lambda p: reads.append(p) or true_read(p))
    for budget, expected in [(10**6, 2), (rgb.nbytes, 4), (0, 6)]:
        reads.clear()
        cache = sources.Cache(budget)
        source = sources.Folder(folder, 16, cache)
        for _ in range(3):
            for i in (0, 2):  # 1 is the broken one
                source[i]
        good = [p for p in reads if p.name != "cut.png"]
        assert len(good) == expected
        assert cache.used <= budget


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda p: p / "absent", "absent"),
        (lambda p: p, "no images"),
    ],
)
def test_missing_and_empty_folders_are_named(prepare, said, tmp_path):
    path = prepare(tmp_path)
    with pytest.raises(ValueError, match=said) as caught:
        sources.open_sources(str(path))
    assert path.name in str(caught.value)


def test_patch_larger_than_every_image_is_named(folder):
    with pytest.raises(ValueError, match="512x512"):
        sources.open_sources(str(folder), min_side=512)


def test_a_folder_of_broken_images_is_an_error(rgb, tmp_path):
    Image.fromarray(rgb).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[:300])
    source = sources.Folder(tmp_path)
    with pytest.raises(ValueError, match="none of the images"):
        source[0]


def test_dead_leaves_differ_by_number_and_grow_with_the_patch():
    source = sources.DeadLeaves(count=3, size=16, min_side=24)
    assert source[0].shape == (24, 24, 3)
    assert not np.array_equal(source[0], source[1])
    assert len(source) == 3


def test_shares_of_a_mixture_sum_to_one(folder):
    mixed = sources.open_sources({str(folder): 3, "dead_leaves": 1}, min_side=16)
    assert [share for _, share in mixed] == [0.75, 0.25]
    assert [source.name for source, _ in mixed] == [str(folder), "dead_leaves"]


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_bad_weights_are_named(weight):
    with pytest.raises(ValueError, match=str(weight)):
        sources.open_sources({"dead_leaves": weight})


def test_no_source_is_an_error():
    with pytest.raises(ValueError, match="no source"):
        sources.open_sources({})


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "float32"])
def test_pixels_of_unknown_range_are_refused(dtype, rgb, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, rgb[..., 0].astype(dtype))
    with pytest.raises(ValueError, match="of unknown range"):
        images.read(path)


def test_white_is_zero_in_some_tiffs(rgb16, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, rgb16[..., 0], photometric="miniswhite")
    np.testing.assert_array_equal(images.read(path)[..., 1], 65535 - rgb16[..., 0])


def test_16bit_colour_ppm_is_refused_not_cut(rgb16, tmp_path):
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6 30 20 65535\n" + rgb16.astype(">u2").tobytes())
    with pytest.raises(ValueError, match="16-bit colour PPM"):
        images.read(path)


def test_photos_stand_upright(rgb, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(rgb).save(tmp_path / "a.png", exif=exif)
    upright = images.read(tmp_path / "a.png")
    np.testing.assert_array_equal(upright, np.rot90(rgb, -1))


def test_bombs_are_refused_whoever_decodes(rgb16, tmp_path, monkeypatch):
    imagecodecs = pytest.importorskip("imagecodecs")
    tifffile = pytest.importorskip("tifffile")
    (tmp_path / "a.png").write_bytes(imagecodecs.png_encode(rgb16))
    tifffile.imwrite(tmp_path / "a.tif", rgb16, photometric="rgb")
    Image.fromarray(rgb16.astype(np.uint8)).save(tmp_path / "b.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for name in ("a.png", "a.tif", "b.png"):
        with pytest.raises((ValueError, Image.DecompressionBombError), match="pixels"):
            images.read(tmp_path / name)


def test_a_system_that_fails_for_a_moment_changes_no_image(rgb, tmp_path, monkeypatch):
    for i in range(2):
        Image.fromarray(rgb).save(tmp_path / f"{i}.png")
    source = sources.Folder(tmp_path)
    with monkeypatch.context() as patch:
        failing = OSError(24, "too many open files")
        patch.setattr(images, "read", lambda path: (_ for _ in ()).throw(failing))
        with pytest.raises(OSError, match="too many"):
            source[0]
    assert source.skipped == 0
    np.testing.assert_array_equal(source[0], rgb)


def test_endings_are_known_from_the_first_call_on():
    """In a process of its own: Pillow loads its formats late."""
    code = "from sevnet_jax.data import images; print(*images.extensions())"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    endings = set(result.stdout.split())
    assert {".jpg", ".jpeg", ".png", ".tif", ".webp", ".bmp"} <= endings
    assert ".eps" not in endings


def test_specs_without_paths(tmp_path):
    for name in ("photos", "more"):
        (tmp_path / name).mkdir()
    spec = f"{tmp_path}/photos=3,{tmp_path}/more=1,dead_leaves=0.5"
    assert sources.without_paths(spec) == "photos=3,more=1,dead_leaves=0.5"
    assert sources.without_paths(str(tmp_path / "more")) == "more"
    assert sources.without_paths("tfds:div2k") == "tfds:div2k"


@pytest.mark.parametrize(
    ("spec", "weights"),
    [
        ("photos", {"photos": 1.0}),
        ("photos=3,dead_leaves=1", {"photos": 3.0, "dead_leaves": 1.0}),
        ("a, b=2", {"a": 1.0, "b": 2.0}),
    ],
)
def test_weights_from_text(spec, weights):
    assert sources.parse_weights(spec) == weights


def test_a_weight_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="no weight in 'a=x'"):
        sources.parse_weights("a=x,b=1")


def test_a_folder_with_a_comma_is_a_folder(tmp_path):
    folder = tmp_path / "a,b=2"
    folder.mkdir()
    assert sources.parse_weights(str(folder)) == {str(folder): 1.0}


def test_dead_leaves_take_a_seed():
    first, again, other = (
        sources.open_one(spec)[0]
        for spec in ("dead_leaves", "dead_leaves:0", "dead_leaves:1")
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    with pytest.raises(ValueError, match="takes a whole number"):
        sources.open_one("dead_leaves:x")
