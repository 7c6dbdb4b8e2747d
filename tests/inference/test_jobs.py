"""Which files denoise.py takes, and where its results go."""

import numpy as np
from PIL import Image

from sevnet_jax import images
from sevnet_jax.files import write_atomically
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.inference.jobs import find_jobs


def test_the_result_stands_beside_the_input(run, photo, denoiser):
    before = photo.read_bytes()
    code, text = run(photo)
    assert code == 0
    assert "photo_denoised.png" in text
    assert "cpu" in text
    assert photo.read_bytes() == before
    expected = denoiser(np.asarray(Image.open(photo)))
    found = np.asarray(Image.open(photo.with_name("photo_denoised.png")))
    np.testing.assert_array_equal(found, expected)


def test_the_same_names_may_be_given_again(run, photo):
    """A shell's *.png names the results of the last time too."""
    assert run(photo)[0] == 0
    result = photo.with_name("photo_denoised.png")
    assert run(photo, result)[0] == 0
    assert not photo.with_name("photo_denoised_denoised.png").exists()


def test_hidden_files_of_a_folder_are_left_alone(run, photo, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(photo.read_bytes())
    (tmp_path / "in" / "._a.png").write_bytes(b"a Mac was here")
    assert run(tmp_path / "in", "-o", tmp_path / "out")[0] == 0


def test_several_images_need_a_folder(run, photo, tmp_path):
    other = tmp_path / "second.png"
    other.write_bytes(photo.read_bytes())
    code, text = run(photo, other, "-o", tmp_path / "both.png")
    assert code == 2
    assert "several images need a folder" in text


def test_out_is_a_file_or_a_folder(run, photo, tmp_path):
    assert run(photo, "-o", tmp_path / "b.tif")[0] == 0
    assert images.read_picture(tmp_path / "b.tif", 10**6).pixels.shape == (9, 13, 3)
    assert run(photo, "-o", tmp_path / "new" / "folder")[0] == 0
    assert (tmp_path / "new" / "folder" / "photo.png").exists()


def test_folders_are_mirrored(run, photo, tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("a.png", "deep/b.png", "c_denoised.png"):
        (tmp_path / "in" / name).write_bytes(photo.read_bytes())
    (tmp_path / "in" / "notes.txt").write_text("")
    assert run(tmp_path / "in", "-o", tmp_path / "out")[0] == 0
    assert [p.name for p in (tmp_path / "out").rglob("*.*")] == ["a.png"]
    assert run(tmp_path / "in", "-o", tmp_path / "all", "--recursive")[0] == 0
    found = {
        p.relative_to(tmp_path / "all").as_posix()
        for p in (tmp_path / "all").rglob("*.*")
    }
    assert found == {"a.png", "deep/b.png"}


def test_globs_and_skipping(run, photo, tmp_path):
    (tmp_path / "photo2.png").write_bytes(photo.read_bytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "photo.png").write_text("mine")
    pattern, out = tmp_path / "photo*.png", tmp_path / "out"
    assert run(pattern, "-o", out, "--skip-existing")[0] == 0
    assert (out / "photo.png").read_text() == "mine"
    assert (out / "photo2.png").exists()


def test_no_input_is_ever_overwritten(run, photo, tmp_path):
    """The result of one input may have the name of another."""
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    for name in ("tree/x.png", "tree/sub/x.png"):
        (tmp_path / name).write_bytes(photo.read_bytes())
    code, text = run(
        *(tmp_path / "tree" / "x.png", tmp_path / "tree" / "sub" / "x.png"),
        *("-o", tmp_path / "tree" / "sub"),
    )
    assert code == 2, text
    code, text = run(tmp_path / "tree", "--recursive", "-o", tmp_path / "tree" / "sub")
    assert code == 2, text
    assert "choose a folder outside" in text
    for name in ("tree/x.png", "tree/sub/x.png"):
        assert (tmp_path / name).read_bytes() == photo.read_bytes()


def test_results_are_not_taken_for_inputs(run, photo, tmp_path):
    for _ in range(2):
        assert run(tmp_path)[0] == 0
        assert run(tmp_path / "p*.png")[0] == 0
        assert run(tmp_path, "-o", tmp_path / "out")[0] == 0
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*")}
    assert found == {"photo.png", "photo_denoised.png", "out/photo.png"}


def test_nothing_is_left_when_the_target_cannot_be_written(run, photo, tmp_path):
    code, text = run(photo, "-o", tmp_path / "b.xyz")
    assert code == 2
    assert "cannot write files that end in '.xyz'" in text
    assert [p.name for p in tmp_path.iterdir()] == ["photo.png"]


def test_a_file_that_is_named_twice_is_restored_once(photo):
    (job,), missing = find_jobs([str(photo), str(photo.parent / "p*.png")])
    assert job.source == photo
    assert not missing


def test_a_slash_names_a_folder(photo, tmp_path):
    (job,), _ = find_jobs([str(photo)], f"{tmp_path}/v1.0/")
    assert job.target == tmp_path / "v1.0" / photo.name


def test_a_name_that_is_too_long_is_said_before_the_work(run, photo, monkeypatch):
    source = photo.with_name("a" * 245 + ".png")
    photo.rename(source)
    monkeypatch.delattr(Denoiser, "__call__")
    code, said = run(source)
    assert code == 2
    assert len(said.strip().splitlines()) == 2  # the first names the network


def test_every_name_that_a_file_may_have_can_be_written(tmp_path):
    path = tmp_path / ("a" * 251 + ".png")
    write_atomically(path, lambda part: part.write_bytes(b"all"))
    assert path.read_bytes() == b"all"
