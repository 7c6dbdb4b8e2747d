"""The photos side by side: their scores, their crop, and what cannot be shown."""

import numpy as np
import pytest
from PIL import Image

import eval as command
from sevnet_jax import images, metrics
from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, sheet
from sevnet_jax.evaluation.commands import compare
from sevnet_jax.evaluation.sheet import Crop


@pytest.fixture
def clean(rng):
    return rng.random((24, 36, 3), np.float32)


def darken(noisy, _):
    return noisy * np.float32(0.9)


DARK = methods.Method("dark", darken, {})


def test_scores_are_those_of_the_pixels_shown(clean):
    rows = compare.restore(clean, ["speckle:90", "gaussian:30"], [DARK], seed=4)
    assert list(rows) == ["speckle:90", "gaussian:30"]
    for name, (photo, noisy, dark) in rows.items():
        made = noise.sample_for_test(name, clean, seed=(4, 0))
        np.testing.assert_array_equal(photo.pixels, metrics.to_rgb8(clean))
        np.testing.assert_array_equal(noisy.pixels, metrics.to_rgb8(made))
        np.testing.assert_array_equal(dark.pixels, metrics.to_rgb8(darken(made, 0)))
        assert photo.psnr is None
        for picture in (noisy, dark):
            expected = metrics.psnr(picture.pixels, photo.pixels)
            assert picture.psnr == expected
            assert f"{expected:.2f} dB" in compare.caption(picture)
            assert f"{expected:.2f}" in compare.format_rows(rows)


def test_methods_are_told_the_rms_of_the_noise(clean):
    told = []
    method = methods.Method("m", lambda x, sigma: told.append((x, sigma)) or x, {})
    compare.restore(clean, ["gaussian:20"], [method])
    ((noisy, sigma),) = told
    assert sigma == pytest.approx(np.sqrt(np.mean((noisy - clean) ** 2)), rel=1e-5)


def test_the_noisy_photo_is_shown_once(clean):
    rows = compare.restore(
        clean, ["speckle:60"], [methods.open_classical("noisy"), DARK]
    )
    assert [p.name for p in rows["speckle:60"]] == [
        "clean (PSNR: rgb8)",
        "noisy, speckle:60",
        "dark",
    ]


@pytest.mark.parametrize(
    ("restore", "words"),
    [
        (lambda x, _: x[1:], r"m returned float32 \(23, 36, 3\)"),
        (lambda x, _: x * np.float32("nan"), "m returned NaN or infinity"),
        (lambda x, _: x.nothing, "m failed on the photo with speckle:60: Attribute"),
    ],
)
def test_what_cannot_be_shown_names_its_method(clean, restore, words):
    with pytest.raises(ValueError, match=words):
        compare.restore(clean, ["speckle:60"], [methods.Method("m", restore, {})])


def test_the_crop_is_where_the_photo_varies_not_where_it_is_colourful(rng):
    pixels = np.full((40, 64, 3), 128, np.uint8)
    pixels[:, 32:] = (220, 128, 36)
    pixels[18:28, 14:24] += (120 * rng.integers(0, 2, (10, 10, 1), np.uint8)) - 60
    assert sheet.find_crop(pixels) == Crop(14, 18, 10)


def test_the_sheet_shows_photo_and_enlarged_crop(clean, tmp_path):
    rows = compare.restore(clean, ["speckle:60"], [])
    crop = Crop(20, 3, 8)
    compare.draw(rows, crop, tmp_path / "a.png")
    drawn = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    photo, noisy = (picture.pixels for picture in rows["speckle:60"])
    windows = np.lib.stride_tricks.sliding_window_view(drawn, (32, 32, 3))[
        ..., 0, :, :, :
    ]
    for pixels in (photo, noisy):
        enlarged = np.kron(crop.cut(pixels), np.ones((4, 4, 1), np.uint8))
        assert (windows == enlarged).all((2, 3, 4)).sum() == 1


def test_a_large_photo_is_shown_by_every_nth_pixel(rng, tmp_path):
    pixels = rng.integers(0, 256, (300, 2500, 3), np.uint8)
    rows = {"none": [compare.Picture("clean", pixels)]}
    compare.draw(rows, Crop(2400, 200, 100), tmp_path / "a.png")
    drawn = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert drawn.shape[1] < 900
    top = next(y for y in range(99) if (drawn[y, 15] == pixels[0, 0]).all())
    np.testing.assert_array_equal(
        drawn[top : top + 100, 15:800], pixels[::3, : 785 * 3 : 3]
    )


def test_the_command(photos, write_weights, tmp_path, capsys):
    out = tmp_path / "new" / "compare.pdf"
    argv = ["compare", "--image", str(photos / "a.png"), "--out", str(out)]
    argv += ["--weights", str(write_weights("small")), "--method", "noisy"]
    argv += ["--noise", "speckle:90", "variant1", "--crop", "1,2,8"]
    assert command.main(argv) == 0
    printed = capsys.readouterr().out
    clean = images.to_float(images.read_pixels(photos / "a.png"))
    noisy = noise.sample_for_test("variant1", clean, seed=(0, 0))
    psnr = metrics.psnr(metrics.to_rgb8(noisy), metrics.to_rgb8(clean))
    assert f"variant1    {psnr:.2f}" in printed
    assert "small" in printed
    assert "crop 1,2,8" in printed
    assert out.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("cannot read the image 'missing.png'", ["--image", "missing.png"]),
        ("crop 15,2,8 is not inside the photo, which is 20", ["--crop", "15,2,8"]),
        ("crop -1,2,8 is not inside", ["--crop=-1,2,8"]),
        ("crop 0,0,0 is not inside", ["--crop", "0,0,0"]),
        ("a crop is LEFT,TOP,SIDE in pixels, got '1,2'", ["--crop", "1,2"]),
        ("a crop is LEFT,TOP,SIDE in pixels, got '1,2,x'", ["--crop", "1,2,x"]),
        ("unknown noise 'fog'", ["--noise", "speckle:60", "fog"]),
        ("unknown method 'magic'", ["--method", "magic"]),
        ("there are no weights 'none.safetensors'", ["--weights", "none.safetensors"]),
        ("cannot draw", ["--out", "a.xyz"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(photos, tmp_path, capsys, words, extra):
    argv = ["compare", "--image", str(photos / "a.png"), "--method", "noisy"]
    assert command.main([*argv, "--out", str(tmp_path / "a.png"), *extra]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a.png").exists()
