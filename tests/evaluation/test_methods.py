"""Classical methods remove noise; what cannot be opened is named."""

import numpy as np
import pytest

import sevnet_jax
from sevnet_jax import metrics
from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods
from sevnet_jax.inference.choose import Choice
from sevnet_jax.weights import load_weights, save_weights


@pytest.fixture(scope="module")
def scene():
    """A smooth image with an edge, and the same with noise."""
    rows, columns = np.mgrid[:64, :64] / 64
    clean = np.stack([rows, columns, (rows + columns > 1) * 0.6], -1).astype("float32")
    noisy = noise.sample_for_test("gaussian:20", clean, seed=0)
    return clean, noisy


@pytest.mark.parametrize("name", ["nlm", "tv", "wavelet"])
def test_classical_methods_gain_at_least_4_db(name, scene):
    clean, noisy = scene
    restored = methods.open_classical(name).restore(noisy, 20 / 255)
    before, after = (
        metrics.psnr(metrics.to_rgb8(image), metrics.to_rgb8(clean))
        for image in (noisy, restored)
    )
    assert after > before + 4


@pytest.mark.parametrize("name", ["noisy", "nlm", "tv", "wavelet"])
def test_no_noise_changes_nothing(name, scene):
    clean, _ = scene
    restored = methods.open_classical(name).restore(clean, 0.0)
    np.testing.assert_allclose(restored, clean, atol=1e-3)


def test_noisy_is_the_input(scene):
    assert methods.open_classical("noisy").restore(scene[1], 0.1) is scene[1]


def test_auto_does_what_denoise_py_does_with_a_file_of_8_bits():
    # Correlated noise, whose clipping is not undone, and black and white pixels.
    rng = np.random.RandomState(0)
    grain = rng.normal(0, 60, (24, 24, 3)).repeat(4, 0).repeat(4, 1)
    pixels = np.clip(np.rint(120 + grain), 0, 255).astype(np.uint8)
    assert pixels.min() == 0
    assert pixels.max() == 255
    scored = methods.open_classical("auto").restore(np.float32(pixels / 255), 0.0)
    np.testing.assert_array_equal(metrics.to_rgb8(scored), sevnet_jax.load()(pixels))


def test_any_function_can_be_scored():
    method = methods.open_classical("numpy:negative")
    assert method.name == "numpy:negative"
    assert method.restore(np.ones(3), 0.1).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bm4d", "unknown method 'bm4d'; choose from noisy, auto"),
        ("no_such_module:f", "cannot import 'no_such_module:f'"),
        ("numpy:no_such_name", "cannot import"),
        ("numpy:pi", "is not a function but float"),
    ],
)
def test_unknown_methods_are_named(name, words):
    with pytest.raises(ValueError, match=words):
        methods.open_classical(name)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(methods.PACKAGES, "nlm", ("no_such_package",))
    with pytest.raises(ValueError, match=r"needs no_such_package: pip install .sevnet"):
        methods.open_classical("nlm")


def test_weights_by_name_file_or_the_folder_of_their_run(write_weights):
    path = write_weights("my_run")
    for spec in (path, path.parent):
        (method,) = methods.open_methods([str(spec)])
        assert method.name == "my_run"
        assert len(method.provenance["weights_sha256"]) == 64
        # On GPUs and TPUs, tables must not depend on how products are rounded.
        assert method.denoiser.program.precision == "highest"
    chosen = methods._open_automatic().find_denoiser(Choice("colour", "white", False))
    assert chosen.program.precision == "highest"


def test_labels_are_as_long_as_need_be(write_weights):
    files = [write_weights(name) for name in ("s0/1a", "s1/1a", "s0/2f")]
    names = [method.name for method in methods.open_methods([str(f) for f in files])]
    assert names == ["s0/1a", "s1/1a", "2f"]


def test_a_folder_of_the_name_of_bundled_weights_is_not_meant(tmp_path, monkeypatch):
    (tmp_path / "sevnet_s").mkdir()
    monkeypatch.chdir(tmp_path)
    assert methods.label_weights(["sevnet_s"]) == ["sevnet_s"]


def test_weights_may_be_given_a_label(write_weights):
    first, second = (str(write_weights(name)) for name in ("1a", "a=b"))
    names = [m.name for m in methods.open_methods([f"LN + GELU={first}", second])]
    assert names == ["LN + GELU", "a=b"]
    (method,) = methods.open_methods([f"ours={second}"])
    assert method.name == "ours"


def test_a_run_without_weights_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"has no weights.safetensors; is it finished"):
        methods.open_methods([str(tmp_path)])


@pytest.fixture
def translator(write_weights):
    """Weights of a translator for those of `denoiser`, and these."""
    denoiser = write_weights("denoiser")
    found = load_weights(denoiser)
    path = denoiser.parent.parent / "tr" / "weights.safetensors"
    provenance = {"denoiser_sha256": found.sha256}
    save_weights(path, found.params, found.config, provenance)
    return str(path.parent), str(denoiser.parent)


def test_a_translator_is_scored_behind_its_denoiser(translator, write_weights, scene):
    own, denoiser = translator
    other = str(write_weights("other", seed=1).parent)
    found = methods.open_methods([other, denoiser], None, own)
    assert [m.name for m in found] == ["other", "denoiser", "denoiser after tr"]
    assert found[2].provenance["training"]["denoiser"]["sha256"]
    _, noisy = scene
    alone, behind = (m.restore(noisy, 0.0) for m in found[1:])
    assert (alone != behind).any()


def test_a_translator_is_no_denoiser(translator):
    with pytest.raises(ValueError, match="tr is a translator"):
        methods.open_methods([translator[0]])
    with pytest.raises(ValueError, match="was trained for the denoiser"):
        methods.open_methods(["sevnet_s"], None, translator[0])


def test_nothing_given_means_the_bundled_weights():
    assert [m.name for m in methods.open_methods()] == ["sevnet_s"]


def test_two_methods_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two methods are called 'noisy'"):
        methods.open_methods(None, ["noisy", "noisy"])
