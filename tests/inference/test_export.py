"""export.py: other runtimes compute what ours computes, at all sizes from one file."""

import functools
import json
import sys

import jax
import numpy as np
import onnx
import onnxruntime
import pytest

from sevnet_jax import create_model
from sevnet_jax.inference import export
from sevnet_jax.models import Network, base, register
from sevnet_jax.weights import load_weights, save_weights
from tests.models.rivals import test_golden

SIZES = [(16, 24), (8, 8), (40, 8)]
SCALES = [np.float32(2.0**n) for n in (-30, -1, 5, 40)]
# What differs in the graph: scales, stem, channels, what is subtracted.
NETWORKS = {
    "colour": {},
    "grey": {"channels": 1, "blocks": ()},
    "three scales": {"stem": 1, "blocks": (1, 0, 0), "bottleneck": 0},
    "no centre": {"centre": "none", "blocks": ()},
    "constant centre": {"centre": "constant", "blocks": ()},
}
compile_fast = functools.partial(jax.jit, compiler_options=test_golden.FAST)


@pytest.fixture
def write_pair(write_weights, draw_params, tmp_path):
    """A function that writes a translator and its denoiser; returns both files."""

    def write():
        denoiser = write_weights("denoiser", blocks=())
        config = {"name": "translator_s", "width": 4, "blocks": [], "bottleneck": 1}
        image = np.zeros((1, 8, 8, 3), np.float32)
        params = draw_params(create_model(**config), image, seed=1)
        provenance = {"denoiser_sha256": load_weights(denoiser).sha256}
        save_weights(tmp_path / "t.safetensors", params, config, provenance)
        return tmp_path / "t.safetensors", denoiser

    return write


@pytest.fixture
def write_program(tmp_path, capsys):
    """A function that runs the command and returns the file it wrote."""

    def write(to, weights, *args):
        path = tmp_path / "programs" / f"program.{to}"
        argv = ["--to", to, "--weights", str(weights), "-o", str(path), *args]
        assert export.main(argv) == 0
        assert "multiples of" in capsys.readouterr().out
        return path

    return write


def open_onnx(path):
    """The function of a file, as ONNX Runtime runs it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would wait in loops between small runs
    session = onnxruntime.InferenceSession(path, options)
    names = [value.name for value in session.get_inputs()]
    return lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0]


def open_stablehlo(path):
    call = compile_fast(jax.export.deserialize(bytearray(path.read_bytes())).call)
    return lambda *arrays: np.asarray(call(*arrays))


OPEN = {"onnx": open_onnx, "stablehlo": open_stablehlo}


def check(run, weights, rng, sizes=SIZES[:1]):
    """Asserts that a program restores as the network does, and keeps its law."""
    model = weights.model
    ours = compile_fast(model.apply)
    for size in sizes:
        image = rng.uniform(size=(2, *size, model.channels)).astype("float32")
        restored = run(image)
        assert np.abs(restored - image).max() > 0.1  # it does something
        expected = ours(weights.params, image)
        np.testing.assert_allclose(restored, expected, rtol=0, atol=1e-5)
    # Zero too: tokens without any energy are where a division goes wrong.
    exact = [(run(k * image) == k * restored).all() for k in (0, *SCALES)]
    assert exact == [model.keeps_the_law] * len(exact)


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_runtime_computes_what_ours_does(write_weights, write_program, name, rng):
    file = write_weights("w", **NETWORKS[name])
    sizes = SIZES if name == "colour" else SIZES[:1]
    check(open_onnx(write_program("onnx", file)), load_weights(file), rng, sizes)


def test_stablehlo_computes_what_ours_does(write_weights, write_program, rng):
    file = write_weights("w", channels=1)
    path = write_program("stablehlo", file)
    check(open_stablehlo(path), load_weights(file), rng, SIZES)
    program = jax.export.deserialize(bytearray(path.read_bytes()))
    assert program.platforms == ("cpu", "cuda", "tpu")
    with pytest.raises(ValueError, match=r"4\*height, 4\*width"):
        program.call(np.zeros((1, 10, 8, 1), np.float32))


@pytest.mark.parametrize("to", OPEN)
def test_a_translator_and_its_denoiser_are_one_program(
    write_pair, write_program, to, rng
):
    translator, denoiser = write_pair()
    path = write_program(to, denoiser, "--translator", str(translator))
    pair = export.load(str(denoiser), str(translator))
    check(OPEN[to](path), pair, rng)


def test_tiles_with_the_mean_of_the_image_equal_the_whole(
    write_weights, write_program, rng
):
    file = write_weights("w", blocks=())
    reach = load_weights(file).model.reach
    image = rng.uniform(size=(1, 8, 2 * reach + 16, 3)).astype("float32")
    whole = open_onnx(write_program("onnx", file))(image)
    run = open_onnx(write_program("onnx", file, "--centre", "input"))
    centre, half = image.mean(keepdims=True), image.shape[2] // 2
    left = run(image[:, :, : half + reach], centre)[:, :, :half]
    right = run(image[:, :, half - reach :], centre)[:, :, reach:]
    tiled = np.concatenate([left, right], axis=2)
    np.testing.assert_allclose(tiled, whole, rtol=0, atol=1e-5)
    assert np.abs(run(image, centre + 1) - whole).max() > 1e-3


def test_stablehlo_takes_the_mean_too(write_weights, write_program, rng):
    file = write_weights("w", blocks=())
    weights = load_weights(file)
    image = rng.uniform(size=(1, 8, 8, 3)).astype("float32")
    centre = np.full((1, 1, 1, 1), 0.3, np.float32)
    expected = compile_fast(weights.model.apply)(weights.params, image, centre)
    run = open_stablehlo(write_program("stablehlo", file, "--centre", "input"))
    np.testing.assert_allclose(run(image, centre), expected, rtol=0, atol=1e-5)


def test_a_graph_is_made_of_plain_nodes(write_weights, write_program):
    file = write_weights("w")
    graph = onnx.load(write_program("onnx", file))
    onnx.checker.check_model(graph, full_check=True)
    assert [domain.domain for domain in graph.opset_import] == [""]
    kinds = [node.op_type for node in graph.graph.node]
    kernels = [k for k in jax.tree.leaves(load_weights(file).params) if k.ndim == 4]
    assert kinds.count("Conv") + kinds.count("ConvTranspose") == len(kernels)
    shape = graph.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in shape] == [
        *("batch", "height", "width", 3)
    ]


def test_a_large_offset_costs_few_bits(write_weights, write_program, rng):
    """One float32 sum over all pixels would put the mean far off."""
    file = write_weights("w", blocks=(), bottleneck=0)
    image = (1000 + rng.uniform(size=(1, 2048, 1024, 3))).astype("float32")
    inside = open_onnx(write_program("onnx", file))(image)
    given = open_onnx(write_program("onnx", file, "--centre", "input"))
    centre = image.mean(dtype="float64").astype("float32").reshape(1, 1, 1, 1)
    np.testing.assert_allclose(inside, given(image, centre), rtol=0, atol=5e-4)


def read_onnx(path):
    about = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    return {k: v if k == "weights_sha256" else json.loads(v) for k, v in about.items()}


def read_stablehlo(path):
    return json.loads(path.read_bytes().rpartition(b"\n")[2])


@pytest.mark.parametrize("to", OPEN)
def test_a_program_says_what_it_was_made_of(write_pair, write_program, to):
    translator, denoiser = write_pair()
    read = {"onnx": read_onnx, "stablehlo": read_stablehlo}[to]
    about, weights = read(write_program(to, denoiser)), load_weights(denoiser)
    assert about["weights_sha256"] == weights.sha256
    assert about["model"] == json.loads(json.dumps(weights.config))
    assert about["provenance"] == weights.provenance
    assert (about["multiple"], about["reach"]) == (2, weights.model.reach)
    assert about["versions"]["jax"] == jax.__version__
    path = write_program(to, denoiser, "--translator", str(translator))
    about = read(path)
    assert about["model"]["translator"]["name"] == "translator_s"
    assert about["provenance"]["denoiser"]["sha256"] == weights.sha256
    assert b"sevnet_jax/models" not in path.read_bytes()  # where it is installed


def test_a_program_computes_in_float32(write_weights, write_program, rng):
    """Also of weights whose network computes in bfloat16."""
    file = write_weights("w", dtype="bfloat16", blocks=())
    weights = load_weights(file)
    image = rng.uniform(size=(1, 8, 8, 3)).astype("float32")
    model = weights.model.with_fields(dtype="float32")
    wide = compile_fast(model.apply)(weights.params, image)
    for to in OPEN:
        restored = OPEN[to](write_program(to, file))(image)
        np.testing.assert_allclose(restored, wide, rtol=0, atol=1e-5)


@pytest.fixture
def complain(tmp_path, capsys):
    """A function that runs a bad command and returns its one line."""

    def run(*args, to="onnx"):
        out = tmp_path / "bad" / "program"
        code = export.main(["--to", to, "-o", str(out), *map(str, args)])
        error = capsys.readouterr().err
        assert (code, error.count("\n")) == (2, 1)
        assert not out.parent.exists()
        return error

    return run


def test_bad_use_is_one_line(complain, write_weights, write_pair, tmp_path):
    assert "there are no weights 'nope'" in complain("--weights", "nope")
    assert "invalid choice: 'torch'" in complain(to="torch")
    (tmp_path / "file").touch()
    assert "cannot write the program" in complain("-o", tmp_path / "file" / "x.onnx")
    assert "ending of weights; take .onnx" in complain("-o", "weights.safetensors")
    assert "not allowed with" in complain("--noise", "camera", "--translator", "x")
    translator, _ = write_pair()
    assert "is a translator" in complain("--weights", translator)
    assert "give it as --weights" in complain("--translator", translator)
    file = write_weights("w", centre="none")
    error = complain("--weights", file, "--centre", "input")
    assert "this SEVNet does not" in error
    error = complain("--weights", file, "--noise", "camera")
    assert "the translator was trained for the denoiser" in error
    assert "not a translator" in complain("--translator", file)


class Ramp(Network):
    """A network that makes a table for the size it sees."""

    def __call__(self, x):
        return x * np.linspace(0, 1, x.shape[1], dtype="float32").reshape(1, -1, 1, 1)


def test_networks_that_cannot_leave_are_named(
    complain, draw_params, tmp_path, monkeypatch
):
    monkeypatch.setattr(base, "_PRESETS", dict(base._PRESETS))
    register("ramp", Ramp)

    def write(**config):
        image = np.zeros((1, 8, 8, 3), np.float32)
        params = draw_params(create_model(**config), image)
        save_weights(tmp_path / "w.safetensors", params, config, {})
        return "--weights", tmp_path / "w.safetensors"

    relu = {"name": "unet_relu_xs", "width": 4, "blocks": []}
    assert "normalization='none', gate='relu'" in complain(*write(**relu))
    assert "got NormalizationWrapper" in complain(*write(**relu, wrapped=True))
    assert "got Ramp; --to stablehlo takes" in complain(*write(name="ramp"))
    assert "ramp is tied to the size" in complain(*write(name="ramp"), to="stablehlo")


def test_without_the_package_it_says_what_to_install(
    complain, write_weights, monkeypatch
):
    monkeypatch.delattr("sevnet_jax.inference.onnx_graph", raising=False)
    monkeypatch.delitem(sys.modules, "sevnet_jax.inference.onnx_graph", raising=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    error = complain("--weights", write_weights("w"))
    assert "pip install -r requirements/export.txt" in error


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["white", "camera"])
@pytest.mark.parametrize("to", OPEN)
def test_the_bundled_weights_leave(write_program, to, noise, rng):
    path = write_program(to, "sevnet_s", "--noise", noise)
    translator = "translator_s" if noise == "camera" else None
    weights = export.load("sevnet_s", translator)
    image = rng.uniform(size=(1, 48, 64, 3)).astype("float32")
    run = OPEN[to](path)
    restored = run(image)
    ours = compile_fast(weights.model.apply)(weights.params, image)
    np.testing.assert_allclose(restored, ours, rtol=0, atol=1e-5)
    assert all((run(k * image) == k * restored).all() for k in SCALES)
