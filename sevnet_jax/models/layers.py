"""The homogeneous blocks of SEVNet and their ablations, all bias-free, channels last.

An ablation is a name in NORMALIZATIONS or GATES; the block itself is written once. A
part declares `reach`, how many tokens around a token it sees, and `keeps_the_law`. What
a new part does not declare is measured (probe.py).
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import ops, probe, tokens


class Conv(nn.Module):
    """Bias-free convolution. Degree 1."""

    features: int
    size: int = 3
    stride: int = 1
    transposed: bool = False
    gain: float = 1.0  # of the initial kernel; 1 keeps the variance of the signal

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H', W', features]
        # A transposed convolution whose stride is its size writes each output once:
        # its fan-in is the channels alone.
        init = nn.initializers.variance_scaling(
            self.gain**2,
            "fan_in",
            "normal",
            batch_axis=(0, 1) if self.transposed else (),
        )
        shape = (self.size, self.size, x.shape[-1], self.features)
        kernel = self.param("kernel", init, shape, jnp.float32)
        return ops.convolve(x, kernel, self.stride, self.transposed)


class ConstantScaling(nn.Module):
    """Divides by sqrt(channels) and applies a learned gain per channel. Degree 1."""

    reach: ClassVar[int] = 0
    keeps_the_law: ClassVar[bool] = True

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [..., C] -> [..., C]
        ops.check_features(x)
        channels = x.shape[-1]
        gain = self.param("gain", nn.initializers.ones, (channels,), jnp.float32)
        scale = (gain / math.sqrt(channels)).astype(x.dtype)
        return x * jnp.expand_dims(scale, range(x.ndim - 1))


class NormalizedSelfModulator(nn.Module):
    """Normalised tokens, rescaled and shifted by a linear map of the token. Degree 1.

    With `scale_free`, the affine map sees the normalised token instead: degree 0.
    """

    scale_free: bool = False

    reach: ClassVar[int] = 0

    @property
    def keeps_the_law(self) -> bool:
        return not self.scale_free

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        source = tokens.normalize(x) if self.scale_free else x
        affine = Conv(2 * x.shape[-1], size=1, name="affine")(source)
        return tokens.modulate(x, affine)


class HeterogeneousNormalization(nn.Module):
    """Constant scaling on half of the channels, `modulator` on the others.

    Degree 1 if the modulator has degree 1.
    """

    modulator: Callable[..., nn.Module] = NormalizedSelfModulator

    @property
    def reach(self) -> int | None:
        return probe.find_reach(self.modulator())

    @property
    def keeps_the_law(self) -> bool:
        return probe.find_law(self.modulator())

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        first, second = split_halves(x, type(self).__name__)
        first = ConstantScaling(name="scaling")(first)
        second = self.modulator(name="modulator")(second)
        return jnp.concatenate([first, second], axis=-1)


class InteractiveGating(nn.Module):
    """`v * g / sqrt(var v + var g)`, v a convolution of one half, g the other half.

    Halves the channels. `scaling` is the variance divided by: of "both" signals or of
    the "gate" alone, degree 1; "none" leaves the bare product, degree 2.
    """

    scaling: str = "both"

    reach: ClassVar[int] = 1

    @property
    def keeps_the_law(self) -> bool:
        return self.scaling != "none"

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, 2C] -> [B, H, W, C]
        first, gate = split_halves(x, type(self).__name__)
        value = Conv(gate.shape[-1], name="value")(first)
        match self.scaling:
            case "none":
                return value * gate
            case "gate":
                scale = tokens.zero_safe_rsqrt(tokens.energy(gate))
                return value * tokens.scale_by(gate, scale)
            case "both":
                return tokens.gate(value, gate)
            case other:
                raise ValueError(
                    f"scaling must be 'both', 'gate' or 'none', got {other!r}"
                )


class Pointwise(nn.Module):
    """A scalar function of each value; of that function's degree, if it has one."""

    function: Callable[[Array], Array]

    reach: ClassVar[int] = 0

    def __call__(self, x: Array) -> Array:  # any shape
        return self.function(x)


class LayerNorm(nn.Module):
    """Conventional layer norm over the channels: not homogeneous, nearly degree 0."""

    reach: ClassVar[int] = 0
    keeps_the_law: ClassVar[bool] = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [..., C] -> [..., C]
        return nn.LayerNorm(dtype=x.dtype, name="norm")(x)


identity = functools.partial(Pointwise, lambda x: x)

NORMALIZATIONS: Mapping[str, Callable[..., nn.Module]] = {
    "hnm": HeterogeneousNormalization,
    "hnm_scale_free": functools.partial(
        HeterogeneousNormalization,
        functools.partial(NormalizedSelfModulator, scale_free=True),
    ),
    "cs": ConstantScaling,
    "cs_half": functools.partial(HeterogeneousNormalization, identity),
    "layer_norm": LayerNorm,
    "none": identity,
}

GATES: Mapping[str, Callable[..., nn.Module]] = {
    "igm": InteractiveGating,
    "igm_single": functools.partial(InteractiveGating, "gate"),
    "igm_unscaled": functools.partial(InteractiveGating, "none"),
    "relu": functools.partial(Pointwise, nn.relu),
    "elu": functools.partial(Pointwise, nn.elu),
    "gelu": functools.partial(Pointwise, functools.partial(nn.gelu, approximate=False)),
    "none": identity,
}


class SEVB(nn.Module):
    """`x + project(gate(normalize(expand(x))))`. Degree 1 as long as its parts are.

    A gate that halves the channels holds a convolution of its own; a pointwise one
    leaves them to the projection. The weights number the same either way.
    """

    normalization: str = "hnm"
    gate: str = "igm"
    expansion: int = 2
    pre_normalization: str = "none"

    @property
    def parts(self) -> dict[str, Callable[..., nn.Module]]:
        """What makes the three parts that differ between rows, by their names."""
        return {
            "prepare": choose(
                NORMALIZATIONS, self.pre_normalization, "pre_normalization"
            ),
            "normalize": choose(NORMALIZATIONS, self.normalization, "normalization"),
            "activate": choose(GATES, self.gate, "gate"),
        }

    @property
    def reach(self) -> int | None:
        total = 2  # its own convolutions
        for make in self.parts.values():
            found = probe.find_reach(make())
            if found is None:
                return None
            total += found
        return total

    @property
    def keeps_the_law(self) -> bool:
        return all(probe.find_law(make()) for make in self.parts.values())

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        channels = x.shape[-1]
        parts = {name: make(name=name) for name, make in self.parts.items()}
        y = Conv(self.expansion * channels, name="expand")(parts["prepare"](x))
        y = parts["activate"](parts["normalize"](y))
        return x + Conv(channels, name="project")(y)


def choose(choices: Mapping[str, Any], name: str, what: str) -> Any:
    """`choices[name]`, or a ValueError that lists the choices."""
    if name not in list(choices):
        listed = ", ".join(map(str, choices))
        raise ValueError(f"unknown {what} {name!r}; choose from {listed}")
    return choices[name]


def split_halves(x: Array, user: str) -> tuple[Array, Array]:
    """The first and the second half of the channels. Degree 1."""
    ops.check_features(x)
    if x.shape[-1] % 2:
        raise ValueError(
            f"{user} splits the channels in two halves, got {x.shape[-1]} channels; "
            "give it an even number"
        )
    first, second = jnp.split(x, 2, axis=-1)
    return first, second
