"""Features before the tail: what they are, and which networks keep their direction."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import eval as command
from sevnet_jax.evaluation.commands import features
from sevnet_jax.models import create_model
from sevnet_jax.weights import load_weights
from studies.ablation.rows import ABLATIONS

extract = jax.jit(features.extract, static_argnums=0)


@pytest.fixture
def image(rng):
    return rng.random((16, 20, 3), np.float32)


@pytest.fixture
def open_row(write_weights):
    """A function (row of the ablation, fields) -> small random weights."""

    def load(row="1a", **fields):
        return load_weights(write_weights(row, **ABLATIONS[row], **fields))

    return load


@pytest.mark.parametrize("remat", [False, True])
def test_features_are_the_output_of_the_last_decoder_block(open_row, image, remat):
    found = open_row(blocks=(2,), stem=1)
    _, state = jax.jit(
        lambda params, x: found.model.apply(
            params,
            x,
            capture_intermediates=lambda module, _: module.name == "decoder_0_block_1",
            mutable=["intermediates"],
        )
    )(found.params, image[None])
    (expected,) = jax.tree.leaves(state)
    model = found.model.clone(remat=remat)
    extracted = extract(model, found.params, image[None])
    assert extracted.shape == (1, 16, 20, 4)
    np.testing.assert_allclose(extracted, expected, rtol=1e-5, atol=1e-6)


def test_a_wrapped_network_has_features_too(open_row, image):
    found = open_row("2f", wrapped=True, stem=1)
    inner, params = found.model.unwrap(found.params)
    standard = (image - image.mean()) / image.std()
    np.testing.assert_allclose(
        extract(found.model, found.params, image[None]),
        extract(inner, params, standard[None]),
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_stage_without_blocks_hands_on_its_skip(draw_params, image):
    model = create_model("sevnet_s", width=4, blocks=(0,), bottleneck=1, stem=1)
    params = draw_params(model, jnp.zeros((1, 8, 8, 3)))
    _, state = model.apply(
        params,
        image[None],
        capture_intermediates=lambda module, _: module.name in ("head", "up_0"),
        mutable=["intermediates"],
    )
    head, up = jax.tree.leaves(state)
    extracted = extract(model, params, image[None])
    np.testing.assert_allclose(extracted, head + up, rtol=1e-5, atol=1e-6)


def test_padding_is_left_out(open_row, image):
    found = open_row()
    extracted = extract(found.model, found.params, image[None, :13, :15])
    assert extracted.shape == (1, 7, 8, 4)  # tokens of 2x2 pixels


@pytest.mark.parametrize(("row", "kept"), [("1a", True), ("2f", False), ("1d", False)])
def test_scaling_keeps_the_direction_in_homogeneous_networks_only(
    open_row, image, row, kept
):
    found = features.study(open_row(row), {"k = 1": image, "k = 20": 20 * image})
    for cosines in (found.cosine, found.map_cosine):
        assert cosines["k = 1"] == pytest.approx(1, abs=1e-12)
        if kept:
            assert cosines["k = 20"] == pytest.approx(1, abs=1e-6)
        else:
            assert cosines["k = 20"] < 0.99
    difference = np.abs(found.maps["k = 1"] - found.maps["k = 20"]).max()
    assert (difference < 1e-4) == kept
    assert np.sqrt(np.mean(found.maps["k = 20"] ** 2)) == pytest.approx(1)


def test_cosines_are_of_all_features_and_of_their_means(open_row, image, rng):
    weights = open_row()
    other = rng.random(image.shape, np.float32)
    found = features.study(weights, {"a": image, "b": other})
    a, b = (
        np.asarray(extract(weights.model, weights.params, x[None]), float)
        for x in (image, other)
    )
    expected = np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b))
    assert found.cosine["b"] == pytest.approx(expected, abs=1e-6)
    a, b = a.mean(-1), b.mean(-1)
    expected = np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b))
    assert found.map_cosine["b"] == pytest.approx(expected, abs=1e-6)
    assert found.map_cosine["b"] != pytest.approx(found.cosine["b"], abs=1e-3)


def test_only_the_level_map_differs():
    clean = np.full((32, 32, 3), 0.25, np.float32)
    noisy = features.add_noises(clean, ["speckle:6", "speckle:3", "gaussian:3"], seed=5)
    six, three, gaussian = (image - clean for image in noisy.values())
    np.testing.assert_allclose(six, 2 * three, atol=1e-6)
    np.testing.assert_allclose(gaussian, 2 * three, atol=1e-6)


@pytest.mark.parametrize("other", ["poisson:4", "mixture", "isp", "variant1*"])
def test_noises_of_another_draw_are_refused(image, other):
    with pytest.raises(ValueError, match="draws other noise than 'speckle:40'"):
        features.add_noises(image, ["speckle:40", other])


def test_the_centre_is_cut():
    image = np.arange(5 * 8).reshape(5, 8, 1)
    np.testing.assert_array_equal(features.cut_centre(image, 3), image[1:4, 2:5])
    np.testing.assert_array_equal(features.cut_centre(image, 6), image[:, 1:7])


def test_the_command(photos, write_weights, tmp_path, capsys):
    out, record = tmp_path / "features.png", tmp_path / "features.json"
    argv = ["features", "--image", str(photos / "a.png"), "--out", str(out)]
    argv += ["--weights", str(write_weights("ours"))]
    argv += [str(write_weights("layer_norm", **ABLATIONS["2f"]))]
    assert command.main([*argv, "--json", str(record), "--size", "12"]) == 0
    found = json.loads(record.read_text())
    assert found["size"] == [12, 12]
    assert list(found["networks"]) == ["ours", "layer_norm"]
    printed = capsys.readouterr().out
    for network in found["networks"].values():
        for key in ("cosine", "map_cosine"):
            assert network[key]["speckle:40"] == pytest.approx(1)
            assert f"{network[key]['variant2']:.4f}" in printed
    with Image.open(out) as picture:
        assert picture.height == 3 * (26 + 42 * 12) + 8  # enlarged by a whole factor


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("cannot read the image 'missing.png'", ["--image", "missing.png"]),
        ("unknown noise 'fog'", ["--noises", "speckle:40", "fog"]),
        ("need two noises or more", ["--noises", "speckle:40"]),
        ("there are no weights 'none'", ["--weights", "none"]),
        ("cannot draw", ["--out", "a.xyz"]),
        ("cannot write the JSON file", ["--json", "."]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(photos, tmp_path, capsys, words, extra):
    argv = ["features", "--image", str(photos / "a.png")]
    assert command.main([*argv, "--out", str(tmp_path / "a.png"), *extra]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a.png").exists()
