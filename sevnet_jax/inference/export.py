"""`export.py`: writes a network with its weights as a program for other runtimes.

One file serves all image sizes: height and width are symbols. The file records how it
was made: an ONNX file as metadata, a StableHLO file as a last line of JSON.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

from sevnet_jax.config import load_parts
from sevnet_jax.files import check_writable, write_atomically
from sevnet_jax.inference.automatic import CAMERA, WEIGHTS, load_weights
from sevnet_jax.models import Network, SEVNet, Translated
from sevnet_jax.runtime import Parser, list_versions, name_command
from sevnet_jax.weights import Weights

PLATFORMS = ("cpu", "cuda", "tpu")
BAD_USE, INTERRUPTED = 2, 130
INSTALL = 'pip install "sevnet_jax[export]"'


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns 0, or 2 if nothing could be written."""
    name = name_command("export.py")
    try:
        args = parse(argv)
        check_writable(args.out, "program")
        if args.parts:
            load_parts(args.parts)
        weights = load_weights(args.weights, args.translator)
        centre_is_input = args.centre == "input"
        if centre_is_input:
            check_centre(weights.model)
        data = FORMATS[args.to](weights, centre_is_input)
        write_atomically(args.out, lambda path: path.write_bytes(data))
    except (ValueError, OSError) as error:
        print(f"{name}:", " ".join(str(error).split()), file=sys.stderr)
        return BAD_USE
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    sides = f"sides are multiples of {weights.model.multiple}"
    print(f"{args.out}: {weights.config['name']}, {len(data) / 1e6:.1f} MB, {sides}")
    return 0


def describe(weights: Weights, *packages: str) -> dict[str, Any]:
    """Returns what a program says of itself."""
    return {
        "model": dict(weights.config),
        "weights_sha256": weights.sha256,
        "provenance": dict(weights.provenance),
        "versions": list_versions("sevnet_jax", "jax", "flax", *packages),
        "multiple": weights.model.multiple,
        "reach": weights.model.reach,
    }


def to_onnx(weights: Weights, centre_is_input: bool) -> bytes:
    """Returns an ONNX file."""
    try:
        from sevnet_jax.inference import onnx_graph
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; {INSTALL}") from None
    about = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in describe(weights, "onnx").items()
    }
    graph = onnx_graph.build(weights.model, weights.params, centre_is_input, about)
    return graph.SerializeToString(deterministic=True)


def to_stablehlo(weights: Weights, centre_is_input: bool) -> bytes:
    """Returns a program of `jax.export` for all platforms, and its description.

    The program's own format has no place for texts. Its reader takes what it needs by
    offsets from the start, so that a line behind it does not disturb.
    """
    restore, shapes = build_function(weights, centre_is_input)
    images = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    # Products cannot be made more exact afterwards: accelerators would round them.
    with jax.default_matmul_precision("highest"), _without_source_paths():
        try:
            program = export.export(jax.jit(restore), platforms=PLATFORMS)(*images)
        except Exception as error:  # a network is anybody's code
            reason = str(error).split("\n")[0]
            raise ValueError(
                f"{weights.config['name']} depends on the size of its images, so it "
                f"cannot be exported for all sizes: {type(error).__name__}: {reason}"
            ) from None
    try:
        data = bytes(program.serialize())
    except ImportError as error:  # of flatbuffers, which JAX does not install
        raise ValueError(f"{error}; {INSTALL}") from None
    return data + b"\n" + json.dumps(describe(weights)).encode()


FORMATS: dict[str, Callable[[Weights, bool], bytes]] = {
    "onnx": to_onnx,
    "stablehlo": to_stablehlo,
}


def build_function(
    weights: Weights, centre_is_input: bool
) -> tuple[Callable[..., jax.Array], list[Sequence[Any]]]:
    """Returns the restoring function in float32, and the shapes that it takes."""
    model = weights.model
    for field in ({"dtype": "float32"}, {"precision": "highest"}):
        with contextlib.suppress(ValueError):  # not every network has it
            model = model.with_fields(**field)

    def restore(image, *centre):
        return model.apply(weights.params, image, *centre)

    sides = f"{model.multiple}*height, {model.multiple}*width"
    shapes: list[Sequence[Any]] = [
        export.symbolic_shape(f"batch, {sides}, {model.channels}")
    ]
    if centre_is_input:
        shapes.append((shapes[0][0], 1, 1, 1))
    return restore, shapes


def check_centre(model: Network) -> None:
    """Raises ValueError unless a network can be given the centre of its images."""
    if not isinstance(model, SEVNet | Translated) or "centre" not in model.told:
        raise ValueError(
            "--centre input is for SEVNets that subtract the image's mean; this "
            f"{type(model).__name__} does not"
        )


@contextlib.contextmanager
def _without_source_paths() -> Iterator[None]:
    """Programs that JAX lowers do not tell where this package is installed."""
    name = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    try:
        yield
    finally:
        jax.config.update(name, before)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog=name_command("export.py"),
        description="Writes a denoiser as one file for other runtimes. The file takes "
        "images of any size. docs/export.md shows how to run it.",
    )
    add = parser.add_argument
    add("--to", choices=list(FORMATS), required=True, help="format of the file")
    add("-o", "--out", required=True, metavar="FILE", help="the file to write")
    add(
        "--weights",
        help="a weights file, the folder of a training run, or the name of bundled "
        f"weights (default: {WEIGHTS['colour']})",
    )
    add("--noise", choices=("white", "camera"), default="white",
        help=f"camera: the default of --weights is {CAMERA['colour']}")  # fmt: skip
    add(
        "--translator",
        metavar="FILE",
        help="a translator of camera noise, to be run before the weights",
    )
    add("--centre", choices=("inside", "input"), default="inside",
        help="where the image's mean comes from: computed inside (default), or a "
        "second input, which tiles of a larger image need")  # fmt: skip
    add("--parts", metavar="FILE", help="config file that defines parts of the "
        "network, if the weights were not trained on this machine")  # fmt: skip
    args = parser.parse_args(argv)
    if args.noise == "camera":
        if args.weights or args.translator:
            parser.error("--noise camera chooses bundled weights; leave out the others")
        args.weights = CAMERA["colour"]
    if Path(args.out).suffix == ".safetensors":
        raise ValueError(f"{args.out} has the ending of a weights file; use .{args.to}")
    return args
