"""SEVNet, a homogeneous U-Net, with its presets and the rows of the ablation table."""

import contextlib
import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import layers, ops, tokens
from sevnet_jax.models.pixel_shuffle import depth_to_space, space_to_depth
from sevnet_jax.models.wrapper import NormalizationWrapper

CENTRES = ("image", "constant", "none")
DTYPES = ("float32", "bfloat16")
# A fresh network leaves the image nearly as it is. At gain 1 its random residual is as
# strong as the image, and training long sits on the best linear filter.
TAIL_GAIN = 0.1
PRECISIONS = (None, "default", "high", "highest")


class SEVNet(nn.Module):
    """Restored images: the input plus what a U-Net of SEVBs makes of it. Degree 1.

    With centre "image", also f(ax + b) = a f(x) + b: the network sees the image minus
    its own mean, and the global residual carries that mean through. Centre "constant"
    subtracts 0.5, so the law holds about 0.5 only; "none" subtracts nothing.

    Compute is in `dtype`, parameters are float32, the result has the input's dtype.
    An infinite pixel turns its neighbourhood into NaN, as a NaN pixel does.
    """

    channels: int = 3
    width: int = 56
    blocks: tuple[int, ...] = (3, 3, 3)  # per scale, finest first; encoder = decoder
    bottleneck: int = 2
    stem: int = 1  # pixels per side that become one token before the first block
    normalization: str = "hnm"
    gate: str = "igm"
    expansion: int = 2
    pre_normalization: str = "none"
    centre: str = "image"
    dtype: str = "float32"
    precision: str | None = None  # None: whatever jax.default_matmul_precision says
    remat: bool = False  # recompute the blocks in the backward pass to save memory

    def __post_init__(self):
        if isinstance(self.blocks, list):
            self.blocks = tuple(self.blocks)
        if not isinstance(self.blocks, tuple):
            raise ValueError(
                f"blocks is a tuple, one count a scale, got {self.blocks!r}"
            )
        if not isinstance(self.dtype, str):
            self.dtype = jnp.dtype(self.dtype).name
        super().__post_init__()
        for name in ("channels", "width", "stem", "expansion"):
            _check_count(name, getattr(self, name), least=1)
        for count in (*self.blocks, self.bottleneck):
            _check_count("blocks and bottleneck", count, least=0)
        layers.choose(layers.NORMALIZATIONS, self.normalization, "normalization")
        layers.choose(
            layers.NORMALIZATIONS, self.pre_normalization, "pre_normalization"
        )
        layers.choose(layers.GATES, self.gate, "gate")
        layers.choose(dict.fromkeys(CENTRES), self.centre, "centre")
        layers.choose(dict.fromkeys(DTYPES), self.dtype, "dtype")
        layers.choose(dict.fromkeys(PRECISIONS), self.precision, "precision")

    def with_fields(self, **fields: Any) -> "SEVNet":
        """Returns the same network with other fields."""
        return self.clone(**fields)

    @property
    def multiple(self) -> int:
        """What padded heights and widths are multiples of."""
        return self.stem * 2 ** len(self.blocks)

    @property
    def reach(self) -> int:
        """How many pixels around an aligned block its output depends on.

        Aligned: its sides lie on multiples of `multiple`, as this number does. Rounding
        errors, and so a NaN, may go further (winograd.py).
        """
        block = 3 if self.gate.startswith("igm") else 2  # its 3x3 convolutions in a row
        sides = [self.stem * 2**scale for scale in range(len(self.blocks) + 1)]
        steps = [
            (side, block * count)
            for side, count in zip(sides, self.blocks, strict=False)
        ]
        inner = (sides[-1], block * self.bottleneck)
        reach = 0
        # From the tail out to the bottom and back to the head; a coarser token is seen
        # whole as soon as a part of it is.
        for side, width in [
            (self.stem, 1),
            *steps,
            inner,
            *steps[::-1],
            (self.stem, 1),
        ]:
            reach = -(-reach // side) * side + side * width
        return -(-reach // self.multiple) * self.multiple

    @nn.compact
    def __call__(
        self, x: Array, centre: Array | None = None
    ) -> Array:  # [B, H, W, channels], [B, 1, 1, 1] -> [B, H, W, channels]
        """Restores `x`; a tile of a larger image needs that image's `centre`."""
        ops.check_images(x)
        if x.shape[-1] != self.channels:
            raise ValueError(
                f"this model takes {self.channels} channels last, got {x.shape}; set "
                f"channels={x.shape[-1]} or move the channel axis"
            )
        if centre is None:
            centre = self.find_centre(x)
        elif jnp.shape(centre) != (x.shape[0], 1, 1, 1):
            raise ValueError(
                f"centre has one value an image, {(x.shape[0], 1, 1, 1)}, got "
                f"{jnp.shape(centre)}"
            )
        block = nn.remat(layers.SEVB) if self.remat else layers.SEVB

        def stage(y, name, count):
            for i in range(count):
                y = block(
                    normalization=self.normalization,
                    gate=self.gate,
                    expansion=self.expansion,
                    pre_normalization=self.pre_normalization,
                    name=f"{name}_block_{i}",
                )(y)
            return y

        def unet(y):
            y = layers.Conv(self.width, name="head")(space_to_depth(y, self.stem))
            skips = []
            for scale, count in enumerate(self.blocks):
                y = stage(y, f"encoder_{scale}", count)
                skips.append(y)
                y = layers.Conv(2 * y.shape[-1], 2, 2, name=f"down_{scale}")(y)
            y = stage(y, "bottleneck", self.bottleneck)
            for scale, count in reversed(list(enumerate(self.blocks))):
                up = layers.Conv(y.shape[-1] // 2, 2, 2, True, name=f"up_{scale}")
                y = stage(up(y) + skips[scale], f"decoder_{scale}", count)
            outputs = self.channels * self.stem**2
            y = layers.Conv(outputs, gain=TAIL_GAIN, name="tail")(y)
            return depth_to_space(y, self.stem)

        signal = tokens.widen(x)
        centred = signal - centre
        padded = ops.pad_to_multiple(centred.astype(self.dtype), self.multiple)
        with (
            jax.default_matmul_precision(self.precision)
            if self.precision
            else contextlib.nullcontext()
        ):
            residual = unet(padded)[:, : x.shape[1], : x.shape[2]]
        return (signal + residual.astype(signal.dtype)).astype(x.dtype)

    def find_centre(self, x: Array) -> Array:  # [B, H, W, C] -> [B, 1, 1, 1]
        """What is subtracted from each image before the network."""
        match self.centre:
            case "image":
                return ops.image_mean(x)
            case "constant":
                return jnp.full((x.shape[0], 1, 1, 1), 0.5)
            case _:
                return jnp.zeros((x.shape[0], 1, 1, 1))


# The paper's Baseline: bias-free conv-ReLU-conv residual blocks.
_BASELINE = {"normalization": "none", "gate": "relu", "expansion": 1}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "sevnet": {"width": 56, "blocks": (3, 3, 3), "bottleneck": 2},
    "sevnet_lw": {"width": 48, "blocks": (1, 2, 3), "bottleneck": 1},
    "sevnet_s": {"width": 48, "blocks": (2, 2), "bottleneck": 1, "stem": 2},
    # Small enough to train every row of the ablation on two CPU cores.
    "sevnet_xs": {"width": 32, "blocks": (1, 1), "bottleneck": 2, "stem": 2},
    # Lightweight translators of camera noise, see translator.py.
    "translator": {"width": 16, "blocks": (1, 1, 1), "bottleneck": 1},
    "translator_s": {"width": 32, "blocks": (1, 1), "bottleneck": 1, "stem": 2},
    "unet_relu": {"width": 64, "blocks": (4, 4, 4), "bottleneck": 4, **_BASELINE},
    # At sevnet_s's and sevnet_xs's parameters and operations.
    "unet_relu_s": {
        "width": 48,
        "blocks": (4, 4),
        "bottleneck": 2,
        "stem": 2,
        **_BASELINE,
    },
    "unet_relu_xs": {
        "width": 32,
        "blocks": (2, 2),
        "bottleneck": 4,
        "stem": 2,
        **_BASELINE,
    },
}

# What each row of the paper's ablation table changes in row 1a.
ABLATIONS: Mapping[str, Mapping[str, str]] = {
    "1a": {},
    "1b": {"normalization": "cs"},
    "1c": {"normalization": "cs_half"},
    "1d": {"gate": "elu"},
    "1e": {"gate": "gelu"},
    "1f": {"normalization": "none", "gate": "elu"},
    "1g": {"normalization": "none", "gate": "gelu"},
    "1h": {"normalization": "hnm_scale_free"},
    "2a": {"gate": "none"},
    "2b": {"gate": "relu"},
    "2c": {"gate": "igm_single"},
    "2d": {"normalization": "layer_norm"},
    "2e": {"normalization": "layer_norm", "gate": "relu"},
    "2f": {"normalization": "layer_norm", "gate": "gelu"},
    "unscaled": {"gate": "igm_unscaled"},
    "pre_ln": {
        "pre_normalization": "layer_norm",
        "normalization": "none",
        "gate": "relu",
    },
}


def list_models() -> list[str]:
    """The names that `create_model` knows."""
    return sorted(PRESETS)


def create_model(
    name: str, *, wrapped: bool = False, **changes: Any
) -> SEVNet | NormalizationWrapper:
    """The preset `name` with some fields changed, for example `channels=1`.

    `wrapped` puts it into a NormalizationWrapper, which centres in its place.
    """
    if name not in list_models():
        raise ValueError(
            f"unknown model {name!r}; choose from {', '.join(list_models())}"
        )
    fields = [field.name for field in dataclasses.fields(SEVNet)]
    known = [field for field in fields if field not in ("parent", "name")]
    for key in changes:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3) or known
            raise ValueError(
                f"unknown model field {key!r}; did you mean {', '.join(near)}?"
            )
    if not wrapped:
        return SEVNet(**{**PRESETS[name], **changes})
    return NormalizationWrapper(
        SEVNet(**{**PRESETS[name], "centre": "none", **changes})
    )


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of {least} or more, got {value!r}")
