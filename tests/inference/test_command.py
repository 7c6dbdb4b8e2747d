"""denoise.py: its options and errors; what fails is named and the rest goes on."""

import dataclasses
import gc
import subprocess
import sys
import weakref

import jax
import numpy as np
import pytest
from PIL import Image

import sevnet_jax
from sevnet_jax import images
from sevnet_jax.inference import automatic, command, restore
from sevnet_jax.inference.automatic import CAMERA
from sevnet_jax.inference.denoiser import Denoiser
from sevnet_jax.weights import load_weights


def test_photos_from_cameras_have_weights_of_their_own(photo, capsys):
    """In the order that one types it: --real must not take the photo for itself."""
    assert command.main(["--real", str(photo)]) == 0
    assert "colour, camera noise" in capsys.readouterr().err
    real = sevnet_jax.load(CAMERA["colour"])
    expected = real(np.asarray(Image.open(photo)))
    found = np.asarray(Image.open(photo.with_name("photo_denoised.png")))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("translator", ["translator_s", "{photo}"])
def test_a_translator_of_other_weights_is_refused(run, photo, translator):
    code, text = run(photo, "--translator", translator.format(photo=photo))
    assert code == 2
    assert text.count("\n") == 1
    wanted = "the translator was trained for the denoiser"
    assert (wanted in text) == (translator == "translator_s")


@pytest.mark.parametrize(
    "given", [("--weights", "sevnet_s"), ("--translator", "translator_s")]
)
@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--real",), "--noise camera"),
        (("--noise", "white"), "--noise white"),
        (("--channels", "independent"), "--channels independent"),
    ],
)
def test_what_chooses_among_bundled_weights_is_not_for_others(
    photo, capsys, given, option, said
):
    assert command.main([str(photo), *given, *option]) == 2
    text = capsys.readouterr().err
    assert f"{said} chooses among the bundled weights; leave out --weights" in text
    assert text.count("\n") == 1


def test_no_error_of_one_file_ends_the_others(run, photo, tmp_path, monkeypatch):
    """Whatever it is: here a device that is full, for the first image only."""
    other = tmp_path / "second.png"
    Image.open(photo).crop((0, 0, 8, 8)).save(other)
    restore = Denoiser.__call__

    def fail_at_the_large_one(self, image, **options):
        if image.shape[0] > 8:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return restore(self, image, **options)

    monkeypatch.setattr(Denoiser, "__call__", fail_at_the_large_one)
    code, text = run(photo, other)
    assert code == 1
    assert "photo.png: it does not fit into memory" in text
    assert other.with_name("second_denoised.png").exists()


@pytest.mark.parametrize("argv", [["--strength", "2"], ["--strange"], []])
def test_wrong_arguments_are_one_line(argv, photo, capsys):
    assert command.main([*argv, *([str(photo)] if argv else [])]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_bad_file_does_not_stop_the_rest(run, photo, tmp_path):
    (tmp_path / "bad.png").write_text("hello")
    code, text = run(tmp_path / "bad.png", photo, "-o", tmp_path / "out")
    assert code == 1
    assert "bad.png: not an image" in text
    assert "1 of 2 inputs failed" in text
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["photo.png"]


def test_a_missing_file_does_not_stop_the_rest(run, photo, tmp_path):
    code, text = run("none.png", photo, "-o", tmp_path / "out")
    assert code == 1
    assert "there is no file 'none.png'" in text
    assert (tmp_path / "out" / "photo.png").exists()


def test_strength_zero_is_the_input(run, photo, tmp_path):
    assert run(photo, "-o", tmp_path / "b.png", "--strength", 0)[0] == 0
    np.testing.assert_array_equal(
        np.asarray(Image.open(tmp_path / "b.png")), np.asarray(Image.open(photo))
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none.png"], "there is no file 'none.png'"),
        (["{photo}", "-o", "{photo}"], "is an input and would be overwritten"),
        (["{photo}", "--device", "tpu"], "this machine has no tpu; found: cpu"),
        (["{photo}", "{other}", "-o", "out"], "would both become"),
    ],
)
def test_bad_use_is_one_line(run, photo, args, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where "out" would be made
    other = photo.parent / "inside" / photo.name
    other.parent.mkdir()
    other.write_bytes(photo.read_bytes())
    code, text = run(*(arg.format(photo=photo, other=other) for arg in args))
    assert code == 2
    assert message in text
    assert len(text.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["no_such_weights", "{photo}"])
def test_bad_weights_are_one_line(photo, capsys, name):
    code = command.main([str(photo), "--weights", name.format(photo=photo)])
    text = capsys.readouterr().err
    assert code == 2
    assert len(text.strip().splitlines()) == 1


def test_a_large_image_is_announced_with_its_time(run, tmp_path, monkeypatch):
    monkeypatch.setattr(restore, "LARGE", 100 * 150)
    for name, width in (("large", 150), ("small", 149)):
        pixels = np.zeros((100, width, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    _, text = run(tmp_path / "large.png", tmp_path / "small.png")
    (line,) = [line for line in text.splitlines() if "megapixels, about" in line]
    assert "large.png: 0 megapixels, about" in line


def test_channels_one_by_one_are_announced_as_so_much_more_work(rng, tmp_path, capsys):
    """Toned and independent channels are a pass each, equal channels one for all."""
    noise = rng.normal(128, 20, (64, 64, 1))
    images_by_passes = {
        1: np.repeat(noise, 3, -1),
        3: noise * [1, 0.9, 0.7],
        5: rng.normal(128, 20, (64, 64, 5)),
    }
    found = {}
    for passes, pixels in images_by_passes.items():
        path = tmp_path / f"{passes}.tif"
        pixels = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
        images.write_picture(path, pixels, images.Picture(pixels))
        restore.restore_file(
            sevnet_jax.load(),
            path,
            path,
            max_pixels=10**6,
            announce=lambda _, count: found.update({passes: count}),  # noqa: B023
        )
    assert found == {passes: passes * 64 * 64 for passes in images_by_passes}


def test_the_estimate_grows_with_the_network(denoiser, draw_params):
    """The same program on the same machine: twice the width is more than twice."""
    model = denoiser.weights.model
    wide = model.clone(width=4 * model.width)
    params = draw_params(wide, np.zeros((1, 8, 8, 3), np.float32))
    weights = dataclasses.replace(denoiser.weights, model=wide, params=params)
    ratio = Denoiser(weights).seconds_per_pixel / denoiser.seconds_per_pixel
    assert ratio > 4  # about 16, but both are timed


def test_neither_import_nor_denoising_loads_tensorflow(project):
    code = (
        "import sys, numpy, sevnet_jax, sevnet_jax.inference.command\n"
        "from tests import compilation\n"
        "sevnet_jax.load()(numpy.zeros((8, 8, 3), 'uint8'))\n"
        "heavy = {'tensorflow', 'optax', 'orbax', 'matplotlib.pyplot'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["def (", "import no_such_module", "1 / 0"])
def test_parts_that_do_not_run_are_one_line(run, photo, tmp_path, text):
    parts = tmp_path / "parts.py"
    parts.write_text(text)
    code, said = run(photo, "--parts", parts)
    assert code == 2
    assert f"config {parts}: " in said
    assert len(said.strip().splitlines()) == 1


def test_an_image_is_analysed_once(photo, weights_file, monkeypatch):
    calls = []
    measure = automatic.choose
    tiny = load_weights(weights_file)
    monkeypatch.setattr(automatic, "load_weights", lambda _: tiny)
    monkeypatch.setattr(
        automatic, "choose", lambda *args: calls.append(1) or measure(*args)
    )
    assert command.main([str(photo), "--quiet"]) == 0
    assert len(calls) == 1


@pytest.mark.parametrize("option", ["ensemble", "fast"])
@pytest.mark.parametrize("named", [True, False])
def test_flags_reach_the_network(photo, weights_file, monkeypatch, option, named):
    given = []
    call = Denoiser.__call__

    def watch(self, image, **options):
        given.append(options[option])
        return call(self, image, **options)

    tiny = load_weights(weights_file)
    monkeypatch.setattr(automatic, "load_weights", lambda *_: tiny)
    monkeypatch.setattr(Denoiser, "__call__", watch)
    argv = [str(photo), "--quiet", *(["--weights", "any"] if named else [])]
    assert command.main(argv) == 0
    assert command.main([*argv, f"--{option}"]) == 0
    assert given == [False, True]


def test_a_machine_that_counts_no_operations_restores_large_images(
    photo, weights_file, monkeypatch, capsys
):
    """On GPUs and TPUs, JAX cannot count before it compiles."""
    monkeypatch.setattr(restore, "LARGE", 1)
    monkeypatch.setattr(jax.stages.Lowered, "cost_analysis", lambda _: None)
    assert command.main([str(photo), "--weights", str(weights_file)]) == 0
    assert "0 megapixels" in capsys.readouterr().err


def test_failed_images_do_not_stay_in_memory(run, photo, monkeypatch):
    seen = []

    def fail(self, image, **_):
        kept = np.array(image)
        seen.append(weakref.ref(kept))
        raise ValueError("this one fails")

    monkeypatch.setattr(Denoiser, "__call__", fail)
    alive = []
    complain = command.complain

    def watch(text):
        gc.collect()
        alive.extend(ref() is not None for ref in seen)
        complain(text)

    monkeypatch.setattr(command, "complain", watch)
    assert run(photo)[0] == 2
    assert alive == [False]


@pytest.mark.parametrize("port", ["0", "99999", "-1"])
def test_ports_that_cannot_be_are_one_line(capsys, port):
    assert command.main(["--page", "--port", port]) == 2
    assert "--port must be 1 to 65535" in capsys.readouterr().err


def test_an_interruption_at_the_start_is_one_line(photo, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "open_denoiser", interrupt)
    assert command.main([str(photo)]) == command.INTERRUPTED
    assert capsys.readouterr().err == "denoise.py: interrupted\n"
