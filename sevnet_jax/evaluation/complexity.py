"""Parameters and multiply-accumulates of a model, counted from its traced program."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.extend import core

from sevnet_jax.models.base import Network, find_shapes
from sevnet_jax.runtime import compiler_options

# Millions of parameters and GMACs at 256x256 in the paper's complexity table. Its
# counter adds biases and norms and misses products that are no layers of their own, so
# that rivals' products differ (docs/rivals.md).
PAPER = {
    "sadnet": (4.23, 18.97),
    "swinir": (3.14, 204.99),
    "uformer": (20.63, 41.55),
    "restormer": (26.13, 141.24),
    "nafnet": (29.16, 16.25),
    "grl": (5.11, 316.57),
    "cgnet": (185.38, 115.08),
    "xformer": (25.22, 143.12),
    "mhnet": (67.54, 127.40),
    "akdt": (11.43, 56.89),
    "esc": (0.94, 51.59),
    "crwkv": (21.08, 113.55),
    "sevnet_lw": (16.28, 76.50),
    "sevnet": (31.32, 158.69),
}
PAPER_SIZE = 256
ROUNDS = 3  # of which the best counts


@dataclasses.dataclass(frozen=True)
class Complexity:
    """What a model costs for one image of size x size pixels."""

    name: str
    size: int
    params: int
    macs: int
    macs_per_pixel: float
    paper_params: float | None  # only for the size that the paper reports
    paper_macs: float | None
    seconds: float | None = None  # on this machine


def measure_complexity(name: str, model: Network, size: int = 256) -> Complexity:
    """Counts of `model`, beside the paper's if it has a model of this name."""
    if size < 1:
        raise ValueError(f"the image size must be at least 1, got {size}")
    image = jax.ShapeDtypeStruct((1, size, size, model.channels), jnp.float32)
    params = find_shapes(model)
    macs = count_macs(model.apply, params, image)
    paper = PAPER.get(name) if size == PAPER_SIZE else None
    return Complexity(
        name,
        size,
        count_params(params),
        macs,
        macs / size**2,
        paper[0] * 1e6 if paper else None,
        paper[1] * 1e9 if paper else None,
    )


def measure_seconds(model: nn.Module, size: int = 256) -> float:
    """Returns the best time of a compiled forward pass, random weights and image."""
    image = jnp.asarray(
        np.random.default_rng(0).uniform(size=(1, size, size, model.channels)), "f4"
    )
    params = jax.jit(model.init)(jax.random.key(0, impl="rbg"), image[:, :8, :8])
    restore = jax.jit(model.apply, compiler_options=compiler_options(forward=True))
    jax.block_until_ready(restore(params, image))
    best = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        jax.block_until_ready(restore(params, image))
        best = min(best, time.perf_counter() - began)
    return best


def count_params(params: Any) -> int:
    """The number of values in a pytree of arrays or shapes."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def count_macs(fn: Callable, *args: Any) -> int:
    """Multiply-accumulates of the convolutions and matrix products in `fn(*args)`.

    Zero padding counts as pixels, as is the custom; the zeros that a transposed
    convolution puts between pixels do not. Of two branches the costlier counts.
    """
    return _count(jax.make_jaxpr(fn)(*args).jaxpr)


def _count(jaxpr: core.Jaxpr) -> int:
    return sum(_count_equation(equation) for equation in jaxpr.eqns)


def _count_equation(equation: core.JaxprEqn) -> int:
    params = equation.params
    match equation.primitive.name:
        case "conv_general_dilated":
            kernel = _shape(equation.invars[1])
            outputs = math.prod(_shape(equation.outvars[0]))
            features = kernel[params["dimension_numbers"].rhs_spec[0]]
            holes = math.prod(params["lhs_dilation"])
            return outputs * math.prod(kernel) // features // holes
        case "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            left = _shape(equation.invars[0])
            depth = math.prod(left[axis] for axis in contracted)
            return math.prod(_shape(equation.outvars[0])) * depth
        case "scan":
            return params["length"] * sum(map(_count, _inner_jaxprs(params)))
        case "cond":
            counts = [*map(_count, _inner_jaxprs(params))]
            # Programs of one platform each do the same; the last is the plain one.
            return counts[-1] if params.get("branches_platforms") else max(counts)
        case "while":
            if any(map(_count, _inner_jaxprs(params))):
                raise ValueError("a while loop's MACs cannot be counted; use lax.scan")
            return 0
    return sum(map(_count, _inner_jaxprs(params)))


def _shape(variable: Any) -> tuple[int, ...]:
    """Any: JAX's type of what a variable stands for knows no shape."""
    return variable.aval.shape


def _inner_jaxprs(params: dict[str, Any]) -> Iterator[core.Jaxpr]:
    is_jaxpr = lambda leaf: isinstance(leaf, core.Jaxpr | core.ClosedJaxpr)  # noqa: E731
    for leaf in jax.tree.leaves(params, is_leaf=is_jaxpr):
        if isinstance(leaf, core.ClosedJaxpr):
            yield leaf.jaxpr
        elif isinstance(leaf, core.Jaxpr):
            yield leaf
