"""Builds ONNX graphs of SEVNets, for runtimes in other languages and on other devices.

A graph is built block by block, in ONNX's order of axes, [B, C, H, W]. The formulas are
those of models/layers.py and models/tokens.py; tests check that both agree. Only this
module imports onnx.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sevnet_jax.models import SEVB, Network, SEVNet, Translated
from sevnet_jax.models.tokens import RELATIVE_EPSILON

# Of 2022, for the sake of older runtimes: all that is used here is in it.
OPSET, IR_VERSION = 18, 8
CHANNELS, HEIGHT, WIDTH = 1, 2, 3  # axes

Shape = tuple[int | str, ...]


def build(
    model: Network, params: Any, centre_is_input: bool, metadata: Mapping[str, str]
) -> onnx.ModelProto:
    """Returns the restoring graph, all float32, or raises ValueError.

    It takes `image` [batch, height, width, channels] and, if asked for, `centre`
    [batch, 1, 1, 1], and gives `restored`, of the shape of `image`.
    """
    graph = Graph()
    x = graph.add("Transpose", "image", perm=[0, 3, 1, 2])
    networks = list_networks(model, params)
    centre = "centre" if centre_is_input else find_centre(graph, networks[-1][0], x)
    for network, variables, scope in networks:
        residual = run_unet(graph, network, variables["params"], x, centre, scope)
        x = graph.add("Add", x, residual)
    graph.add("Transpose", x, name="restored", perm=[0, 2, 3, 1])
    shapes: dict[str, Shape] = {"image": ("batch", "height", "width", model.channels)}
    if centre_is_input:
        shapes["centre"] = ("batch", 1, 1, 1)
    found = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "restore",
            [_describe(name, shape) for name, shape in shapes.items()],
            [_describe("restored", shapes["image"])],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="sevnet_jax",
    )
    helper.set_model_props(found, dict(metadata))
    return found


def _describe(name: str, shape: Shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def list_networks(model: Network, params: Any) -> list[tuple[SEVNet, Any, str]]:
    """Returns networks, variables and scopes, in the order in which they restore."""
    if isinstance(model, Translated):
        parts = {"translator": model.translator, "denoiser": model.denoiser}
        return [
            (check(part), {"params": params["params"][name]}, f"{name}/")
            for name, part in parts.items()
        ]
    return [(check(model), params, "")]


def check(model: Network) -> SEVNet:
    """Returns a network that can be built here; ValueError if it is another."""
    usual = SEVB()
    if type(model) is not SEVNet:
        what = type(model).__name__
    elif model.block.parts != usual.parts:
        fields = ("normalization", "gate", "pre_normalization")
        what = ", ".join(f"{name}={getattr(model, name)!r}" for name in fields)
    else:
        return model
    raise ValueError(
        "only SEVNets with the usual block can become ONNX files, alone or after a "
        f"translator, got {what}; --to stablehlo takes other networks"
    )


class Graph:
    """Nodes and constants of a graph that grows; values go by their names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Adds a node; returns the name of its output, which is its own."""
        name = name or f"{kind}_{len(self.nodes)}"
        node = helper.make_node(kind, inputs, [name], name=name, **attributes)
        self.nodes.append(node)
        return name

    def halve(self, x: str) -> tuple[str, str]:
        """Returns the first and the second half of the channels."""
        name = f"Split_{len(self.nodes)}"
        halves = (f"{name}_first", f"{name}_second")
        node = helper.make_node(
            "Split", [x], halves, name=name, axis=CHANNELS, num_outputs=2
        )
        self.nodes.append(node)
        return halves

    def constant(self, name: str, values: Any, dtype: str = "float32") -> str:
        """Returns the name of a constant, which is kept once."""
        if name not in self.constants:
            array = np.ascontiguousarray(np.asarray(values, dtype))
            self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def mean(self, x: str, axis: int) -> str:
        axes = self.constant(f"axis_{axis}", [axis], "int64")
        return self.add("ReduceMean", x, axes, keepdims=1)


def find_centre(graph: Graph, model: SEVNet, x: str) -> str | None:
    """What is subtracted from each image; None if nothing is."""
    match model.centre:
        case "image":
            # Axis by axis: one float32 sum over millions of pixels would lose bits.
            for axis in (WIDTH, HEIGHT, CHANNELS):
                x = graph.mean(x, axis)
            return x
        case "constant":
            return graph.constant("centre", 0.5)
        case _:
            return None


def run_unet(
    graph: Graph, model: SEVNet, params: Any, x: str, centre: str | None, scope: str
) -> str:
    """What the network adds to the image."""

    def conv(y, name, stride=1, transposed=False):
        kernel = params[name]["kernel"]
        return convolve(graph, y, kernel, f"{scope}{name}", stride, transposed)

    def stage(y, name, count):
        for i in range(count):
            block = f"{name}_block_{i}"
            y = run_block(graph, y, params[block], f"{scope}{block}/")
        return y

    y = x if centre is None else graph.add("Sub", x, centre)
    if model.stem > 1:
        y = graph.add("SpaceToDepth", y, blocksize=model.stem)
    y = conv(y, "head")
    skips = []
    for scale, count in enumerate(model.blocks):
        y = stage(y, f"encoder_{scale}", count)
        skips.append(y)
        y = conv(y, f"down_{scale}", stride=2)
    y = stage(y, "bottleneck", model.bottleneck)
    for scale, count in reversed(list(enumerate(model.blocks))):
        y = conv(y, f"up_{scale}", stride=2, transposed=True)
        y = stage(graph.add("Add", y, skips[scale]), f"decoder_{scale}", count)
    y = conv(y, "tail")
    if model.stem > 1:
        y = graph.add("DepthToSpace", y, blocksize=model.stem, mode="DCR")
    return y


def run_block(graph: Graph, x: str, params: Any, scope: str) -> str:
    """`x + project(gate(normalize(expand(x))))`, as layers.SEVB."""
    expanded = convolve(graph, x, params["expand"]["kernel"], f"{scope}expand")
    # The two halves that are normalised are the two that the gate takes.
    first, second = graph.halve(expanded)
    gain = np.asarray(params["normalize"]["scaling"]["gain"]).reshape(-1, 1, 1)
    scaling = graph.constant(f"{scope}scaling", gain / math.sqrt(gain.size))
    first = graph.add("Mul", first, scaling)
    kernel = params["normalize"]["modulator"]["affine"]["kernel"]
    affine = convolve(graph, second, kernel, f"{scope}affine")
    gamma, beta = graph.halve(affine)
    centred, energy = find_energy(graph, second)
    normalized = graph.add("Mul", centred, invert_root(graph, energy))
    second = graph.add("Add", graph.add("Mul", gamma, normalized), beta)
    value = params["activate"]["value"]["kernel"]
    first = convolve(graph, first, value, f"{scope}value")
    energy = graph.add(
        "Add", find_energy(graph, first)[1], find_energy(graph, second)[1]
    )
    # The signal is scaled first: a bare product would underflow at twice the exponent.
    signal = graph.add("Mul", second, invert_root(graph, energy))
    gated = graph.add("Mul", first, signal)
    project = params["project"]["kernel"]
    return graph.add("Add", x, convolve(graph, gated, project, f"{scope}project"))


def convolve(
    graph: Graph,
    x: str,
    kernel: Any,
    name: str,
    stride: int = 1,
    transposed: bool = False,
) -> str:
    """The bias-free convolution, as ops.convolve; `kernel` is [h, w, I, O]."""
    sides = [kernel.shape[0]] * 2
    axes = (2, 3, 0, 1) if transposed else (3, 2, 0, 1)
    weights = graph.constant(f"{name}/kernel", np.transpose(kernel, axes))
    padding = {} if stride > 1 else {"pads": [sides[0] // 2] * 4}
    return graph.add(
        "ConvTranspose" if transposed else "Conv",
        *(x, weights),
        name=name,
        kernel_shape=sides,
        strides=[stride, stride],
        **padding,
    )


def find_energy(graph: Graph, x: str) -> tuple[str, str]:
    """Tokens without their mean, and what they are normalised by, as tokens.energy."""
    mean = graph.mean(x, CHANNELS)
    centred = graph.add("Sub", x, mean)
    variance = graph.mean(graph.add("Mul", centred, centred), CHANNELS)
    power = graph.add("Add", variance, graph.add("Mul", mean, mean))
    part = graph.add("Mul", power, graph.constant("epsilon", RELATIVE_EPSILON))
    return centred, graph.add("Add", variance, part)


def invert_root(graph: Graph, energy: str) -> str:
    """`1 / sqrt(energy)`, and 0 where that is 0, as tokens.zero_safe_rsqrt."""
    zero = graph.constant("zero", 0)
    scale = graph.add("Reciprocal", graph.add("Sqrt", energy))
    return graph.add("Where", graph.add("Equal", energy, zero), zero, scale)
