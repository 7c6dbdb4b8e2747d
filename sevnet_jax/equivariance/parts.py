"""Finds which submodules of a Flax model break f(kx) = k f(x)."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import flax.errors
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from sevnet_jax.equivariance.law import (
    Measurement,
    check_scales,
    fitting,
    measure,
)


@dataclasses.dataclass(frozen=True)
class Part:
    """A submodule, measured alone on the input it received inside of its model."""

    path: str  # "" is the whole model
    kind: str
    measurement: Measurement
    holds: bool


def measure_parts(
    model: nn.Module,
    variables: Any,
    x: Any,
    *args: Any,
    scales: Iterable[float] | None = None,
    tolerance: float | None = None,
    select: Callable[[str], bool] = lambda path: True,
    rngs: Any = None,
    mutable: Any = False,
    **kwargs: Any,
) -> list[Part]:
    """The submodule calls of `model.apply(variables, x)`, in the order they finish.

    Each is measured on the arrays that it received there. Of these, what another `x`
    would not change is not scaled: flags, integers, parameters of other modules.
    `select` says by its path, such as "encoder/norm", which to measure. A call that
    cannot be repeated alone is left out, and so left to its parent: one inside of a
    JAX transformation (remat, scan, jit), one that shares another module's variables,
    one that returns something other than floating-point arrays. So is one of which
    nothing can be told: no value is finite, or all leave their range at all scales.
    """
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x)):
        raise ValueError("submodules can only be measured outside jax.jit")
    if scales is not None:
        scales = tuple(scales)
        check_scales(scales)

    def record(x):
        calls = []

        def keep(next_fun, args, kwargs, context):
            result = next_fun(*args, **kwargs)
            path = "/".join(context.module.path)
            if context.method_name == "__call__" and select(path):
                module, own = context.module.unbind()
                calls.append((path, module, own, (args, kwargs), result))
            return result

        with nn.intercept_methods(keep):
            model.apply(variables, x, *args, rngs=rngs, mutable=mutable, **kwargs)
        return calls

    def judge(call, twin):
        path, module, own, given, result = call
        leaves, structure = jax.tree.flatten(given)
        signals = [
            i
            for i, (leaf, other) in enumerate(
                zip(leaves, jax.tree.leaves(twin[3]), strict=True)
            )
            if _is_signal(leaf) and not np.array_equal(leaf, other)
        ]
        results = jax.tree.leaves(result)
        if not signals or not all(map(_is_signal, results)):
            return []
        given_signals = [leaves[i] for i in signals]
        # Of the whole model, each scale that its input cannot hold is an error.
        fits = path and scales is not None
        wanted = fitting(given_signals, scales) if fits else scales
        finite = any(bool(jnp.isfinite(leaf).any()) for leaf in results)
        if path and (wanted == () or not finite):
            return []

        def call(values):
            moved = list(leaves)
            for i, value in zip(signals, values, strict=True):
                moved[i] = value
            args, kwargs = jax.tree.unflatten(structure, moved)
            output = module.apply(own, *args, rngs=rngs, mutable=mutable, **kwargs)
            return output[0] if mutable else output

        try:
            law = measure(call, given_signals, wanted, shifts=())
        except flax.errors.FlaxError:
            return []
        if path and not any(row.in_range for row in law.scales):
            return []
        return [Part(path, type(module).__name__, law, law.holds(tolerance))]

    return _judge_by_inner_rounding(
        [
            part
            for pair in zip(record(x), record(jax.tree.map(_vary, x)), strict=True)
            for part in judge(*pair)
        ],
        tolerance,
    )


def locate(
    model: nn.Module,
    variables: Any,
    x: Any,
    *args: Any,
    scales: Iterable[float] | None = (2.0**-8, 0.5, 3.0, 2.0**8),
    **options: Any,
) -> list[Part]:
    """The submodules that break f(kx) = k f(x), in the order of the data flow.

    `options` are those of `measure_parts`, or arguments of the model. Fresh biases are
    zero and break nothing: give `perturb(variables)`.
    """
    return find_culprits(
        measure_parts(model, variables, x, *args, scales=scales, **options)
    )


def find_culprits(parts: Sequence[Part]) -> list[Part]:
    """Of these parts the ones to blame: broken, though all of their own parts hold.

    What sits inside of a part that keeps the law is not to blame, whatever its degree:
    a normaliser of degree 0 may well serve a block of degree 1. Inside of a broken part
    it is named, since it may be the cause; its measured degree helps to judge.
    """
    broken = {part.path for part in parts if not part.holds}
    keeping = {part.path for part in parts} - broken
    exposed = [
        part
        for part in parts
        if not part.holds and keeping.isdisjoint(_enclosing(part.path))
    ]
    enclosing = {path for part in exposed for path in _enclosing(part.path)}
    return [part for part in exposed if part.path not in enclosing]


def _judge_by_inner_rounding(parts: list[Part], tolerance: float | None) -> list[Part]:
    """A whole rounds as coarsely as the coarsest of its parts."""
    rounding: dict[str, float] = {}
    for part in parts:
        for path in (part.path, *_enclosing(part.path)):
            rounding[path] = max(rounding.get(path, 0.0), part.measurement.rounding)

    def judge(part):
        limit = rounding[part.path] if tolerance is None else tolerance
        return dataclasses.replace(part, holds=part.measurement.holds(limit))

    return [judge(part) for part in parts]


def _enclosing(path: str) -> list[str]:
    names = path.split("/") if path else []
    return ["/".join(names[:count]) for count in range(len(names))]


def _vary(leaf: Any) -> Any:
    """Another signal, each value by a factor of its own: no normaliser undoes that."""
    if not _is_signal(leaf):
        return leaf
    factors = np.random.default_rng(0).uniform(0.5, 1.5, leaf.shape)
    return leaf * jnp.asarray(factors, leaf.dtype)


def _is_signal(leaf: Any) -> bool:
    """Whether it is a floating-point array whose values are known."""
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return (
        is_array
        and not isinstance(leaf, jax.core.Tracer)
        and jnp.issubdtype(leaf.dtype, jnp.floating)
    )
