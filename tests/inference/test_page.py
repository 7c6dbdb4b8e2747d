"""The web page without a browser: tests/page has one."""

import sys

import pytest

from sevnet_jax.inference import command, page


@pytest.fixture
def answer(denoiser, tmp_path):
    """A function of a file: what the page would say, and whether there is a result."""
    folder = tmp_path / "page"
    folder.mkdir()

    def answer(path, **options):
        options = {"max_pixels": 10_000, **options}
        result, text = page.try_restore(denoiser, path, folder, **options)
        return text, result

    return answer


def test_an_image_is_restored_and_described(answer, photos):
    text, result = answer(str(photos / "a.png"))
    assert text == "a.png: 20 x 16, 8 bit"
    assert result.save(1).exists()


def test_what_was_chosen_is_said(photos, tmp_path):
    _, denoiser = command.open_denoiser(command.parse(["--page"]))
    _, text = page.try_restore(
        denoiser, str(photos / "a.png"), tmp_path, max_pixels=10_000
    )
    assert "; colour, white noise, clipping undone" in text


def test_progress_and_size_are_announced(answer, photos):
    seen = []
    answer(
        str(photos / "a.png"),
        announce=lambda used, count: seen.append(count),
        progress=lambda parts: seen.append(len(parts)) or parts,
    )
    assert seen == [16 * 20, 1]


BAD = {
    "empty.png": (b"", "the file is empty"),
    "text.png": (b"hello", "not an image in one of"),
    "torn.png": (None, "a damaged image"),
    "wrong.gif": (None, "cannot write files that end in '.gif'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence(answer, photos, tmp_path, name):
    content, message = BAD[name]
    good = (photos / "a.png").read_bytes()
    half = len(good) // 2 if name == "torn.png" else None
    (tmp_path / name).write_bytes(good[:half] if content is None else content)
    text, result = answer(str(tmp_path / name))
    assert result is None
    assert text.startswith(f"{name}: ")
    assert message in text
    assert "\n" not in text


def test_too_many_pixels_are_refused_unread(answer, photos):
    text, result = answer(str(photos / "a.png"), max_pixels=319)
    assert result is None
    assert "20x16 is more than 319 pixels" in text


def test_a_full_device_is_one_sentence(answer, photos):
    def fail(used, pixels):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nmore lines")

    text, result = answer(str(photos / "a.png"), announce=fail)
    assert (text, result) == ("a.png: it does not fit into memory", None)


@pytest.mark.parametrize(
    ("path", "said"), [(None, "Drop an image first."), ("gone.png", page.GONE)]
)
def test_no_image_is_said(answer, path, said):
    assert answer(path) == (said, None)


def test_names_of_files_are_no_markup():
    assert "<b>" not in page.say("<b>.png: damaged")


def test_the_samples_are_there():
    found = sorted(page.SAMPLES.glob("*_noisy_*.png"))
    assert len(found) == 4
    assert 'alt="lighthouse"' in page.show_sample(found[0])


def test_without_gradio_it_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert command.main(["--page"]) == 2
    text = capsys.readouterr().err
    assert "the page needs Gradio; install it with `make page`" in text
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--page", "a.png"], "leave out the input files"),
        (["--page", "--out", "b"], "not for --page"),
        (["--page", "--recursive"], "not for --page"),
        (["--page", "--skip-existing"], "not for --page"),
        (["a.png", "--port", "80"], "need --page"),
        (["a.png", "--host", "0.0.0.0"], "need --page"),
    ],
)
def test_what_does_not_go_together_is_one_line(argv, message, capsys):
    assert command.main(argv) == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1


def test_the_page_has_a_limit_of_its_own():
    files, shown = (command.parse([word]).max_pixels for word in ("a.png", "--page"))
    assert shown < files
    assert command.parse(["--page", "--max-pixels", "7"]).max_pixels == 7
