"""Classical methods remove noise; what cannot be opened is named."""

import numpy as np
import pytest

from sevnet_jax.data import noise
from sevnet_jax.evaluation import methods, metrics


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


def test_any_function_can_be_scored():
    method = methods.open_classical("numpy:negative")
    assert method.name == "numpy:negative"
    assert method.restore(np.ones(3), 0.1).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bm4d", "unknown method 'bm4d'; choose from noisy, nlm"),
        ("no_such_module:f", "cannot import 'no_such_module:f'"),
        ("numpy:no_such_name", "cannot import"),
        ("numpy:pi", "is no function but float"),
    ],
)
def test_unknown_methods_are_named(name, words):
    with pytest.raises(ValueError, match=words):
        methods.open_classical(name)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(methods.PACKAGES, "nlm", ("no_such_package",))
    with pytest.raises(ValueError, match=r"needs no_such_package: pip install -r"):
        methods.open_classical("nlm")


def test_weights_by_file_or_by_the_folder_of_their_run(write_weights):
    path = write_weights("my_run")
    for spec in (path, path.parent):
        method = methods.open_weights(str(spec))
        assert method.name == "my_run"
        assert len(method.provenance["weights_sha256"]) == 64
    assert methods.open_weights("sevnet_s").name == "sevnet_s"


def test_a_run_without_weights_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"has no weights.safetensors; is it finished"):
        methods.open_weights(str(tmp_path))


def test_nothing_given_means_the_bundled_weights():
    assert [m.name for m in methods.open_methods()] == ["sevnet_s"]


def test_two_methods_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two methods are called 'noisy'"):
        methods.open_methods(None, ["noisy", "noisy"])
