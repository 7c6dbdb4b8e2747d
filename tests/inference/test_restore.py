"""What is done to the channels of a file, and said of them."""

import numpy as np
import pytest
import tifffile
from PIL import Image
from scipy import ndimage

from sevnet_jax import images
from sevnet_jax.inference import command
from sevnet_jax.inference.automatic import load
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.inference.restore import restore_file


def write_bands(rng, path, count, extra, photometric="minisblack"):
    samples = count - (3 if photometric == "rgb" else 1)
    tifffile.imwrite(
        path,
        rng.integers(0, 256, (24, 40, count), np.uint8),
        photometric=photometric,
        planarconfig="contig",
        extrasamples=[extra] * samples,
    )
    return tifffile.imread(path)


@pytest.mark.parametrize("count", [2, 4])
def test_bands_of_a_tiff_are_all_restored(rng, tmp_path, capsys, count):
    before = write_bands(rng, tmp_path / "a.tif", count, "unspecified")
    assert command.main([str(tmp_path / "a.tif")]) == 0
    assert "independent channels" in capsys.readouterr().err
    after = tifffile.imread(tmp_path / "a_denoised.tif")
    assert (after != before).any((0, 1)).all()


def test_each_page_of_a_stack_has_a_choice_and_all_are_counted(rng, tmp_path, capsys):
    white = rng.normal(128, 20, (3, 64, 64, 3))
    white[1] = 128 + 3 * ndimage.gaussian_filter(white[1] - 128, (1, 1, 0))
    path = tmp_path / "stack.tif"
    tifffile.imwrite(path, white.clip(0, 255).astype(np.uint8), photometric="rgb")
    assert command.main([str(path)]) == 0
    said = capsys.readouterr().err
    assert "2 pages: colour, white noise; 1 page: colour, camera noise" in said
    after = tifffile.imread(tmp_path / "stack_denoised.tif")
    assert (after.std((1, 2, 3)) < 0.5 * white.std((1, 2, 3))).all()


def test_options_and_the_bar_reach_each_page(rng, tmp_path):
    denoiser = load()
    pages = rng.integers(0, 256, (3, 24, 32, 3), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", pages, photometric="rgb")
    shown = []

    def show(parts):
        for part in parts:
            shown.append(part)
            yield part

    files = tmp_path / "a.tif", tmp_path / "b.tif"
    options = {"max_pixels": 10**6, "ensemble": True}
    found = restore_file(denoiser, *files, progress=show, **options)
    assert len(shown) == 3
    for page, restored in zip(pages, found.pixels, strict=True):
        np.testing.assert_array_equal(restored, denoiser(page, ensemble=True))


def test_many_bands_of_few_rows_are_no_mistake(rng, tmp_path, capsys):
    pixels = rng.integers(0, 256, (3, 40, 6), np.uint8)
    given = {"photometric": "minisblack", "planarconfig": "contig"}
    tifffile.imwrite(tmp_path / "a.tif", pixels, **given)
    assert command.main([str(tmp_path / "a.tif")]) == 0
    assert "independent channels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "dtype"),
    [("png", "uint8"), ("png", "uint16"), ("jpg", "uint8"), ("tif", "float32")],
)
def test_grey_files_lose_their_noise(rng, tmp_path, capsys, ending, dtype):
    clean = 0.5 + 0.3 * np.sin(np.arange(96) / 9)[:, None] * np.ones(96)
    noisy = (clean + rng.normal(0, 0.05, clean.shape)).astype(np.float32)
    path, white = tmp_path / f"a.{ending}", np.float32(1)
    if dtype != "float32":
        white = np.iinfo(dtype).max
        noisy = np.rint(noisy * white).astype(dtype)
    if ending == "tif":
        tifffile.imwrite(path, noisy)
    else:
        Image.fromarray(noisy).save(path)
    assert command.main([str(path)]) == 0
    assert "; grey, " in capsys.readouterr().err
    read = tifffile.imread if ending == "tif" else images.read_pixels
    before, after = (
        np.squeeze(read(p)) / np.float64(white)
        for p in (path, tmp_path / f"a_denoised.{ending}")
    )
    assert np.std(after - clean) < 0.4 * np.std(before - clean)


def test_alpha_of_a_tiff_stays(rng, tmp_path, capsys):
    before = write_bands(rng, tmp_path / "a.tif", 2, "unassalpha")
    assert command.main([str(tmp_path / "a.tif")]) == 0
    assert "as it is" not in capsys.readouterr().err
    after = tifffile.imread(tmp_path / "a_denoised.tif")
    assert (after != before).any((0, 1)).tolist() == [True, False]


def test_a_fourth_channel_of_unknown_use_stays_and_is_named(rng, tmp_path, run):
    before = write_bands(rng, tmp_path / "a.tif", 4, "unspecified", "rgb")
    code, said = run(tmp_path / "a.tif")
    assert code == 0
    assert "its last channel as it is" in said
    after = tifffile.imread(tmp_path / "a_denoised.tif")
    assert (after != before).any((0, 1)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("channels", [1, 3])
def test_grey_images_under_colour_weights_are_named(
    rng, tmp_path, run, photo, channels
):
    grey = rng.integers(0, 256, (9, 13, 1), np.uint8)
    pixels = np.broadcast_to(grey, (9, 13, 3)) if channels == 3 else grey[..., 0]
    Image.fromarray(np.ascontiguousarray(pixels)).save(tmp_path / "grey.png")
    warning = "these weights are for colour"
    assert warning in run(tmp_path / "grey.png")[1]
    assert warning not in run(photo)[1]


def test_more_channels_than_a_file_can_hold_are_said_before_the_work(
    rng, tmp_path, run, monkeypatch
):
    write_bands(rng, tmp_path / "a.tif", 5, "unspecified")
    monkeypatch.delattr(Denoiser, "__call__")
    code, said = run(tmp_path / "a.tif", "-o", tmp_path / "b.png")
    assert code == 2
    assert "cannot hold 5 channels; use .tif" in said
