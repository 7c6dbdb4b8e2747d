"""Pairs are found by their names; what does not fit is named."""

import numpy as np
import pytest
from PIL import Image

from sevnet_jax import metrics
from sevnet_jax.evaluation import scenes


def save(path, side=16, value=100):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, 20, 3), value, np.uint8)).save(path)


@pytest.mark.parametrize(
    "names",
    [
        ("x_real.png", "x_mean.png"),
        ("x_real.png", "x_mean.bmp"),
        ("x_noisy.png", "x_clean.png"),
        ("x_NOISY.png", "x_GT.png"),
        ("1_NOISY_SRGB_010.png", "1_GT_SRGB_010.png"),
        ("x_Real.png", "x_Mean.png"),
        ("SIDD_noisy/x.png", "SIDD_clean/x.png"),
        ("input/deep/x.png", "groundtruth/deep/x.png"),
    ],
)
def test_pairs_are_found_in_one_folder(tmp_path, names):
    save(tmp_path / names[0], value=110)
    save(tmp_path / names[1], value=100)
    (tmp_path / "README.md").write_text("no image")
    (scene,) = scenes.from_pairs(str(tmp_path))
    (given,) = scene.inputs()
    assert scene.data == tmp_path.name
    assert scene.noises == ("real",)
    assert given.sigma == pytest.approx(10 / 255)
    assert given.reference.clean[0, 0, 0] == 100


def test_pairs_of_two_folders(tmp_path):
    for name in "ab":
        save(tmp_path / "first" / f"{name}.png")
        save(tmp_path / "second" / f"{name}.jpg")
    found = scenes.from_pairs(f"{tmp_path / 'first'},{tmp_path / 'second'}")
    assert [scene.image for scene in found] == ["first/a.png", "first/b.png"]
    assert len(scenes.from_pairs(f"{tmp_path}/first,{tmp_path}/second", 1)) == 1


@pytest.mark.parametrize("way", ["real/../real", "link"])
def test_pairs_of_two_folders_by_any_way_to_them(tmp_path, way):
    for folder in ("noisy", "clean"):
        save(tmp_path / "real" / folder / "a.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    place = tmp_path / way
    (scene,) = scenes.from_pairs(f"{place}/noisy,{place}/clean")
    assert (scene.data, scene.image) == ("real", "noisy/a.png")


def test_a_pair_of_two_sizes_is_refused_before_any_work(tmp_path):
    save(tmp_path / "x_real.png", side=16)
    save(tmp_path / "x_mean.png", side=17)
    with pytest.raises(ValueError, match=r"x_real.png is 16x20.*x_mean.png is 17x20"):
        scenes.from_pairs(str(tmp_path))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x_real.png", "y_mean.png"], "no image 'x_mean'"),
        (["x_real.png", "x_mean.png", "x_mean.bmp"], "several references"),
        (["x.png"], "no pairs in"),
        (["noisy/x.png", "clean/y.png"], "no image 'x'"),
        (["note.txt"], "no images in"),
        (
            ["x_real.png", "x_mean.png", "y_NOISY.png", "y_GT.png"],
            "belong to no pair: 2, such as 'y_GT.png'",
        ),
        (
            ["x_real.png", "x_mean.png", "y_mean.png"],
            "no pair: 1, such as 'y_mean.png'",
        ),
        (["noisy/x.png", "clean/x.png", "clean/y.png"], "such as 'clean/y.png'"),
    ],
)
def test_what_is_missing_is_named(tmp_path, names, words):
    for name in names:
        if name.endswith((".png", ".bmp")):
            save(tmp_path / name)
        else:
            (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=words):
        scenes.from_pairs(str(tmp_path))


@pytest.mark.parametrize("spec", ["/none", "{},", ",{}"])
def test_half_a_pair_of_folders_is_refused(tmp_path, spec):
    with pytest.raises(ValueError, match="pairs are one folder or two"):
        scenes.from_pairs(spec.format(tmp_path))


def test_sets_of_two_folders_are_called_as_what_holds_both(tmp_path):
    for folder in ("noisy", "clean"):
        for name in ("a/x.png", "b/x.png"):
            save(tmp_path / "CC" / folder / name)
    found = scenes.from_pairs(f"{tmp_path}/CC/noisy,{tmp_path}/CC/clean")
    assert {scene.data for scene in found} == {"CC"}
    assert [scene.image for scene in found] == ["noisy/a/x.png", "noisy/b/x.png"]


def test_turned_photos_pair_with_upright_ones(tmp_path):
    pixels = np.full((16, 20, 3), 100, np.uint8)
    exif = Image.Exif()
    exif[274] = 6
    Image.fromarray(np.rot90(pixels).copy()).save(tmp_path / "x_real.jpg", exif=exif)
    Image.fromarray(pixels).save(tmp_path / "x_mean.png")
    (scene,) = scenes.from_pairs(str(tmp_path))
    (given,) = scene.inputs()
    assert given.noisy.shape == (16, 20, 3)


def test_notes_of_other_systems_are_no_images(photos):
    (photos / "._a.png").write_bytes(b"")
    (photos / "film.mpg").write_bytes(b"")
    assert len(scenes.from_folder(photos, ["gaussian:20"])) == 2


def test_a_folder_that_is_not_there():
    with pytest.raises(ValueError, match="no folder '/none'"):
        scenes.from_folder("/none", ["gaussian:20"])


def test_an_unknown_noise_is_refused_before_any_work(photos):
    with pytest.raises(ValueError, match=r"speckel.*choose from"):
        scenes.from_folder(photos, ["speckel:90"])


def test_an_image_too_small_to_score_says_so(tmp_path):
    save(tmp_path / "x.png", side=10)
    (scene,) = scenes.from_folder(tmp_path, ["gaussian:20"])
    with pytest.raises(ValueError, match="10x20 is too small"):
        next(scene.inputs())


def test_real_pairs_of_the_public_set(image_sets):
    """PolyU's names, and the published PSNR of its noisy images: 35.97 dB."""
    found = scenes.from_pairs(str(image_sets / "real" / "PolyU"))
    assert len(found) == 100
    scores = []
    for scene in found:
        (given,) = scene.inputs()
        scores.append(given.reference.psnr(metrics.to_rgb8(given.noisy)))
    assert np.mean(scores) == pytest.approx(35.97, abs=0.005)
