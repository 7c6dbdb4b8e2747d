"""Finds which submodules of a Flax model break f(kx) = k f(x)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from sevnet_jax.evaluation.equivariance.law import SCALES, Measurement, measure


@dataclasses.dataclass(frozen=True)
class Part:
    """A submodule, measured alone on the input it received inside of its model."""

    path: str  # "" is the whole model
    kind: str
    measurement: Measurement
    holds: bool


def measure_parts(
    model: nn.Module,
    params: Any,
    x: Any,
    scales: Sequence[float] = SCALES,
    tolerance: float | None = None,
    depth: int | None = None,
) -> list[Part]:
    """Every submodule call of `model.apply(params, x)`, in the order they finish.

    Each is measured on the arrays that it received there; flags and integers stay.
    Calls inside of a JAX transformation (remat, scan, jit) have no values to repeat and
    are left out, as are those that return something other than floating-point arrays.
    `depth` 1 stops at the model's own parts; None goes all the way down.
    """
    calls = []

    def record(next_fun, args, kwargs, context):
        result = next_fun(*args, **kwargs)
        deep = depth is not None and len(context.module.path) > depth
        if context.method_name == "__call__" and not deep:
            module, variables = context.module.unbind()
            calls.append((context.module.path, module, variables, args, kwargs, result))
        return result

    with nn.intercept_methods(record):
        model.apply(params, x)

    def judge(path, module, variables, args, kwargs, result):
        leaves, structure = jax.tree.flatten((args, kwargs))
        signals = [i for i, leaf in enumerate(leaves) if _is_signal(leaf)]
        if not signals or not all(map(_is_signal, jax.tree.leaves(result))):
            return []

        def call(values):
            moved = list(leaves)
            for i, value in zip(signals, values, strict=True):
                moved[i] = value
            args, kwargs = jax.tree.unflatten(structure, moved)
            return module.apply(variables, *args, **kwargs)

        values = [leaves[i] for i in signals]
        law = measure(call, values, scales, shifts=())
        return [Part("/".join(path), type(module).__name__, law, law.holds(tolerance))]

    return [part for call in calls for part in judge(*call)]


def locate(
    model: nn.Module,
    params: Any,
    x: Any,
    scales: Sequence[float] = (2.0**-8, 0.5, 3.0, 2.0**8),
    tolerance: float | None = None,
) -> list[Part]:
    """The submodules that break f(kx) = k f(x), in the order of the data flow."""
    return find_culprits(measure_parts(model, params, x, scales, tolerance))


def find_culprits(parts: Sequence[Part]) -> list[Part]:
    """Of these parts the ones to blame: broken, though all of their own parts hold.

    What sits inside of a part that keeps the law is not to blame, whatever its degree:
    a normaliser of degree 0 may well serve a block of degree 1. Inside of a broken part
    it is named, since it may be the cause; its measured degree helps to judge.
    """
    broken = {part.path for part in parts if not part.holds}
    exposed = [
        part
        for part in parts
        if part.path in broken and broken.issuperset(_enclosing(part.path))
    ]
    enclosing = {path for part in exposed for path in _enclosing(part.path)}
    return [part for part in exposed if part.path not in enclosing]


def _enclosing(path: str) -> list[str]:
    names = path.split("/") if path else []
    return ["/".join(names[:count]) for count in range(len(names))]


def _is_signal(leaf: Any) -> bool:
    """Whether it is a floating-point array whose values are known."""
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return (
        is_array
        and not isinstance(leaf, jax.core.Tracer)
        and jnp.issubdtype(leaf.dtype, jnp.floating)
    )
