"""Measures and asserts f(kx) = k^d f(x) and f(x + b) = f(x) + b.

In floating point, scaling by a power of two only changes exponents, so the law is
checked with `==`. Only other scales, where k x itself is rounded, have a tolerance.
"""

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SCALES = (*(2.0**n for n in (-40, -20, -8, -1, 1, 8, 20, 40)), 0.1, 1 / 3, 3.0, 1000.0)
SHIFTS = (-2.0, -0.3, 0.1, 1.0)
# The error put down to rounding: so many epsilons of the coarsest dtype, but never more
# than a share that a wrong function would exceed as well.
TOLERANCE_IN_EPSILONS = 64
LARGEST_TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Row:
    """How well the law holds at one scale or shift."""

    value: float  # the scale or shift, as rounded to the input's dtype
    relative_error: float  # largest difference over largest expected value
    bit_exact: bool
    in_range: bool  # the dtypes can hold every scaled and every expected value
    norm: float  # of the result
    mean: float  # of the result
    worst: str  # the value furthest off, in words
    must_be_exact: bool  # the scale only moves exponents, in and out

    def keeps_law(self, tolerance: float) -> bool:
        """Whether it is bit-exact, where it must be, or within tolerance.

        True where scaled or expected values under- or overflow: nothing can be said.
        """
        if not self.in_range:
            return True
        return (
            self.bit_exact if self.must_be_exact else self.relative_error <= tolerance
        )


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The law's error at each scale and shift, and the degree that was found."""

    scales: tuple[Row, ...]
    degree: float  # slope of log |f(kx)| against log k
    degree_spread: float  # largest deviation of a slope between neighbouring scales
    shifts: tuple[Row, ...]
    shift_gain: float  # slope of the mean of f(x + b) against b: 1 if equivariant
    shift_spread: float
    rounding: float  # the tolerance that rounding in the coarsest dtype calls for

    def holds(self, tolerance: float | None = None) -> bool:
        """Whether the scale law holds: exactly for powers of two, else to tolerance.

        Not if scaled or expected values under- or overflow at every scale.
        """
        tolerance = self.rounding if tolerance is None else tolerance
        measured = any(row.in_range for row in self.scales)
        return measured and all(row.keeps_law(tolerance) for row in self.scales)


def measure(
    fn: Callable[[Any], Any],
    x: Any,
    scales: Iterable[float] | None = None,
    shifts: Iterable[float] = SHIFTS,
    degree: float = 1.0,
) -> Measurement:
    """How `fn` responds to scaled and shifted `x`, against f(kx) = k^degree f(x).

    `x` and `fn(x)` are arrays, of JAX or NumPy, or pytrees of them. `scales` are by
    default those of SCALES that the dtype of `x` can hold. Parameters that start at
    zero, such as biases, hide what they break: see `perturb`.
    """
    x = _to_arrays(x)
    coarsest = _coarsest_dtype(x)
    scales = fitting(x, SCALES) if scales is None else tuple(scales)
    shifts = tuple(shifts)
    check_scales(scales)
    # A product with 1 is a copy: a function that works in place must not spoil x, and
    # one that writes into the same memory each time not its own first result.
    result = _to_arrays(fn(_combine(operator.mul, x, 1.0)))
    result = jax.tree.map(
        lambda a: a.copy() if isinstance(a, np.ndarray) else a, result
    )
    result_dtype = _coarsest_dtype(result)
    limits = [jnp.finfo(leaf.dtype) for leaf in jax.tree.leaves(result)]
    plain = _to_float64(result)
    if not any(values.size for values in plain.values()):
        raise ValueError("the function returned no values to compare")
    if not any(np.isfinite(values).any() for values in plain.values()):
        raise ValueError("the function returned no finite value")

    def scale_row(scale):
        k = _round_to(coarsest, scale)
        scaled = _combine(operator.mul, x, k)
        left = _leaves_range(x, scaled)  # before it may be overwritten or donated
        got = _to_float64(fn(scaled))
        # In float64, so that only the function's own rounding counts as its error.
        expected = {name: values * k**degree for name, values in plain.items()}
        must_be_exact = is_power_of_two(k) and is_power_of_two(k**degree)
        row = _compare(k, got, expected, limits, must_be_exact)
        in_range = row.in_range and not left
        return dataclasses.replace(row, in_range=in_range)

    def shift_row(shift):
        b = _round_to(coarsest, shift)
        got = _to_float64(fn(_combine(operator.add, x, b)))
        # In the result's dtype: a sum is rounded, whoever adds it.
        expected = _to_float64(_combine(operator.add, result, b))
        return _compare(b, got, expected, limits)

    scale_rows = tuple(map(scale_row, scales))
    shift_rows = tuple(map(shift_row, shifts))
    unmoved = _compare(0.0, plain, plain, limits)
    found, spread = _slope(
        [
            (math.log2(k), math.log2(row.norm))
            for k, row in [(1.0, unmoved), *((row.value, row) for row in scale_rows)]
            if row.norm > 0 and math.isfinite(row.norm)
        ]
    )
    gain, gain_spread = _slope(
        [(r.value, r.mean) for r in (unmoved, *shift_rows) if math.isfinite(r.mean)]
    )
    epsilon = max(float(jnp.finfo(dtype).eps) for dtype in (coarsest, result_dtype))
    return Measurement(
        scales=scale_rows,
        degree=found,
        degree_spread=spread,
        shifts=shift_rows,
        shift_gain=gain,
        shift_spread=gain_spread,
        rounding=min(TOLERANCE_IN_EPSILONS * epsilon, LARGEST_TOLERANCE),
    )


def assert_homogeneous(
    fn: Callable[[Any], Any],
    x: Any,
    degree: float = 1.0,
    scales: Iterable[float] | None = None,
    tolerance: float | None = None,
) -> None:
    """Raises AssertionError unless f(kx) = k^degree f(x).

    Exact for powers of two; elsewhere the largest error may be `tolerance` times the
    largest value, by default 64 times the epsilon of the coarsest dtype in and out, at
    most 0.05; a function that computes in a coarser dtype inside needs its own. Scales
    at which scaled or expected values leave their dtype's range are passed over.
    """
    result = measure(fn, x, scales, shifts=(), degree=degree)
    tolerance = result.rounding if tolerance is None else tolerance
    if not any(row.in_range for row in result.scales):
        raise ValueError(
            "scaled or expected values overflow or underflow at all of these scales"
        )
    for row in result.scales:
        if not row.keeps_law(tolerance):
            limit = f"the limit is {tolerance:.1e}"
            rule = "a power of two must be exact" if row.must_be_exact else limit
            raise AssertionError(
                f"f(kx) = k^{degree:g} f(x) fails at k = {format_scale(row.value)}: "
                f"relative error {row.relative_error:.2e} ({rule}); {row.worst}; "
                f"measured degree {result.degree:.3f} +- {result.degree_spread:.1e}"
            )


def perturb(variables: Any, seed: int = 0) -> Any:
    """`variables` with noise on every parameter, a tenth of its leaf's own size.

    Leaves of zeros get noise of 0.1: what starts at zero, as Flax's biases do, would
    otherwise break no law. Of a dict of collections only "params" is changed.
    """
    rng = np.random.default_rng(seed)

    def add_noise(leaf):
        values = np.asarray(leaf, np.float64)
        spread = 0.1 * (np.sqrt(np.mean(np.square(values))) or 1.0)
        noisy = values + spread * rng.normal(size=values.shape)
        return jax.device_put(noisy.astype(leaf.dtype))

    if isinstance(variables, Mapping) and "params" in variables:
        return {**variables, "params": jax.tree.map(add_noise, variables["params"])}
    return jax.tree.map(add_noise, variables)


def check_scales(scales: Sequence[float]) -> None:
    if not scales or any(scale <= 0 for scale in scales):
        raise ValueError(f"give at least one scale, all above 0; got {scales}")


def fitting(x: Any, scales: Iterable[float]) -> tuple[float, ...]:
    """The scales that every dtype of `x` can hold."""
    limits = [jnp.finfo(leaf.dtype) for leaf in jax.tree.leaves(x)]
    low = max(float(limit.tiny) for limit in limits)
    high = min(float(limit.max) for limit in limits)
    return tuple(scale for scale in scales if low <= scale <= high)


def is_power_of_two(value: float) -> bool:
    """Whether scaling by `value` only moves exponents."""
    return value > 0 and math.frexp(value)[0] == 0.5


def format_scale(value: float) -> str:
    """A scale in few characters: 2^n if it is a power of two."""
    return f"2^{math.frexp(value)[1] - 1}" if is_power_of_two(value) else f"{value:.4g}"


def _round_to(dtype: np.dtype, value: float) -> float:
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(value, dtype))
    if rounded == 0 or not math.isfinite(rounded):
        raise ValueError(f"{value!r} is 0 or not finite as a {dtype}")
    return rounded


def _to_arrays(tree: Any) -> Any:
    return jax.tree.map(lambda a: a if hasattr(a, "dtype") else jnp.asarray(a), tree)


def _leaves_range(x: Any, scaled: Any) -> bool:
    """Whether a value of `x`, finite and not 0, is none any more or is rounded.

    Below the smallest normal number a product with a power of two is rounded as well,
    before any function sees it.
    """

    def leaves(before, after):
        a, b = (np.asarray(values, np.float64) for values in (before, after))
        tiny = float(jnp.finfo(before.dtype).tiny)
        outside = ~np.isfinite(b) | (np.abs(b) < tiny)
        return bool((np.isfinite(a) & (a != 0) & outside).any())

    return any(jax.tree.leaves(jax.tree.map(leaves, x, scaled)))


def _combine(operation: Callable, tree: Any, value: float) -> Any:
    with np.errstate(over="ignore"):  # seen to by who compares
        return jax.tree.map(lambda a: operation(a, np.asarray(value, a.dtype)), tree)


def _coarsest_dtype(tree: Any) -> np.dtype:
    dtypes = [np.dtype(leaf.dtype) for leaf in jax.tree.leaves(tree)]
    if not dtypes or not all(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes):
        found = ", ".join(map(str, dtypes)) or "none"
        raise ValueError(f"the law is for floating-point arrays, got {found}")
    return max(dtypes, key=lambda dtype: jnp.finfo(dtype).eps)


def _to_float64(tree: Any) -> dict[str, np.ndarray]:
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path): np.asarray(leaf).astype(np.float64)
        for path, leaf in leaves
    }


def _compare(
    value: float,
    got: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    limits: Iterable[Any],
    must_be_exact: bool = False,
) -> Row:
    shapes = [{name: a.shape for name, a in tree.items()} for tree in (got, expected)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"at {value:.4g} the result became {shapes[0]}, not {shapes[1]}"
        )
    error, worst = -1.0, "no values"
    for name, b in expected.items():
        a = got[name]
        if not a.size:
            continue
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(all="ignore"):  # inf - inf, x / 0: settled below
            difference = np.abs(a - b)
            # A NaN or infinity on one side only is as wrong as can be.
            difference = np.where(np.isfinite(difference), difference, np.inf)
            difference = np.where(same, 0, difference)
            largest = np.max(np.abs(b), initial=0, where=np.isfinite(b))
            relative = np.where(same, 0, difference / largest)
        index = tuple(map(int, np.unravel_index(relative.argmax(), a.shape)))
        if relative[index] > error:
            error = float(relative[index])
            worst = f"worst at {name}{list(index)}: got {a[index]:.9g}"
            worst += f", expected {b[index]:.9g}"
    values = np.concatenate([a.ravel() for a in got.values()])
    with np.errstate(invalid="ignore"):  # inf - inf again
        norm, mean = float(np.linalg.norm(values)), float(np.sum(values) / values.size)
    in_range = all(map(_fits, expected.values(), limits))
    return Row(
        value=value,
        relative_error=max(error, 0.0),
        bit_exact=error <= 0,
        in_range=in_range,
        norm=norm,
        mean=mean,
        worst=worst,
        must_be_exact=must_be_exact,
    )


def _fits(values: np.ndarray, limit: Any) -> bool:
    """Whether a dtype of these limits holds all values, but those not finite or 0."""
    sizes = np.abs(values)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return bool(((sizes >= float(limit.tiny)) & (sizes <= float(limit.max))).all())


def _slope(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Least-squares slope, and the largest deviation of a slope between neighbours."""
    if len({position for position, _ in points}) < 2:
        return math.nan, math.nan
    positions, values = np.array(sorted(points)).T
    slope = float(np.polyfit(positions, values, 1)[0])
    with np.errstate(divide="ignore", invalid="ignore"):  # two rows at one scale
        local = np.diff(values) / np.diff(positions)
    return slope, float(np.nanmax(np.abs(local - slope)))
