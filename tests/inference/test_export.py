"""export.py: other runtimes compute what ours computes, at all sizes from one file."""

import jax
import numpy as np
import onnx
import onnxruntime
import pytest

from sevnet_jax import create_model
from sevnet_jax.inference import export
from sevnet_jax.weights import load_weights, save_weights

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


def open_onnx(path):
    """The function of a file, as ONNX Runtime runs it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more would wait in loops between small runs
    session = onnxruntime.InferenceSession(path, options)
    names = [value.name for value in session.get_inputs()]
    return lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0]


def open_stablehlo(path):
    call = jax.jit(jax.export.deserialize(bytearray(path.read_bytes())).call)
    return lambda *arrays: np.asarray(call(*arrays))


OPEN = {"onnx": open_onnx, "stablehlo": open_stablehlo}


def check(run, weights, rng, sizes=SIZES[:1]):
    """Asserts that a program restores as the network does, and keeps its law."""
    model = weights.model
    ours = jax.jit(model.apply)
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
    pair = export.load_weights(str(denoiser), str(translator))
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


def test_stablehlo_takes_other_networks(write_program, draw_params, rng, tmp_path):
    config = {"name": "unet_relu_xs", "width": 4, "blocks": [], "wrapped": True}
    params = draw_params(create_model(**config), np.zeros((1, 8, 8, 3), np.float32))
    save_weights(tmp_path / "w.safetensors", params, config, {})
    run = open_stablehlo(write_program("stablehlo", tmp_path / "w.safetensors"))
    check(run, load_weights(tmp_path / "w.safetensors"), rng)


def test_stablehlo_takes_the_mean_too(write_weights, write_program, rng):
    file = write_weights("w", blocks=())
    weights = load_weights(file)
    image = rng.uniform(size=(1, 8, 8, 3)).astype("float32")
    centre = np.full((1, 1, 1, 1), 0.3, np.float32)
    expected = jax.jit(weights.model.apply)(weights.params, image, centre)
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


def test_a_program_computes_in_float32(write_weights, write_program, rng):
    """Also of weights whose network computes in bfloat16."""
    file = write_weights("w", dtype="bfloat16", blocks=())
    weights = load_weights(file)
    image = rng.uniform(size=(1, 8, 8, 3)).astype("float32")
    model = weights.model.with_fields(dtype="float32")
    wide = jax.jit(model.apply)(weights.params, image)
    for to in OPEN:
        restored = OPEN[to](write_program(to, file))(image)
        np.testing.assert_allclose(restored, wide, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("translator", [None, "translator_s"])
@pytest.mark.parametrize("to", OPEN)
def test_the_bundled_weights_leave(write_program, to, translator, rng):
    options = ["--translator", translator] if translator else []
    path = write_program(to, "sevnet_s", *options)
    weights = export.load_weights("sevnet_s", translator)
    image = rng.uniform(size=(1, 48, 64, 3)).astype("float32")
    run = OPEN[to](path)
    restored = run(image)
    ours = jax.jit(weights.model.apply)(weights.params, image)
    np.testing.assert_allclose(restored, ours, rtol=0, atol=1e-5)
    assert all((run(k * image) == k * restored).all() for k in SCALES)
