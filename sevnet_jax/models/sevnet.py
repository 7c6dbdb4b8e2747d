"""SEVNet, a homogeneous U-Net, and its presets."""

import contextlib
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from sevnet_jax.models import layers, ops, tokens
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.cpu.pixel_shuffle import depth_to_space, space_to_depth

CENTRES = ("image", "constant", "none")
DTYPES = ("float32", "bfloat16")
# A fresh network leaves the image nearly as it is. At gain 1 its random residual is as
# strong as the image, and training long sits on the best linear filter.
TAIL_GAIN = 0.1
PRECISIONS = (None, "default", "high", "highest")


class SEVNet(Network):
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
                f"blocks must be a tuple, one count per scale, got {self.blocks!r}"
            )
        if not isinstance(self.dtype, str):
            with contextlib.suppress(TypeError):  # what is no type is refused below
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

    @property
    def block(self) -> layers.SEVB:
        """The block that all stages are made of."""
        return layers.SEVB(
            self.normalization,
            self.gate,
            self.expansion,
            self.pre_normalization,
            parent=None,
        )

    @property
    def multiple(self) -> int:
        return self.stem * 2 ** len(self.blocks)

    @property
    def told(self) -> tuple[str, ...]:
        return ("centre",) if self.centre == "image" else ()

    @property
    def keeps_the_law(self) -> bool:
        return self.centre != "constant" and self.block.keeps_the_law

    @property
    def reach(self) -> int | None:
        # Rounding errors, and so a NaN, may go further (cpu/winograd.py).
        block = self.block.reach
        if block is None:
            return None
        sides = [self.stem * 2**scale for scale in range(len(self.blocks) + 1)]
        steps = [
            (side, block * count)
            for side, count in zip(sides, self.blocks, strict=False)
        ]
        inner = (sides[-1], block * self.bottleneck)
        ends = (self.stem, 1)
        reach = 0
        # From the tail out to the bottom and back to the head; a coarser token is seen
        # whole as soon as a part of it is.
        for side, width in [ends, *steps, inner, *steps[::-1], ends]:
            reach = -(-reach // side) * side + side * width
        return -(-reach // self.multiple) * self.multiple

    def restore_tile(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        if self.centre != "image":
            return self(x)
        return self(x, jnp.zeros((x.shape[0], 1, 1, 1)))

    @nn.compact
    def __call__(
        self, x: Array, centre: Array | None = None
    ) -> Array:  # [B, H, W, channels], [B, 1, 1, 1] -> [B, H, W, channels]
        """Restores `x`; a tile of a larger image needs that image's `centre`."""
        self.check_input(x)
        if centre is None:
            centre = self.find_centre(x)
        elif jnp.shape(centre) != (x.shape[0], 1, 1, 1):
            raise ValueError(
                f"centre needs one value per image, {(x.shape[0], 1, 1, 1)}, got "
                f"{jnp.shape(centre)}"
            )
        block = nn.remat(layers.SEVB) if self.remat else layers.SEVB

        def stage(y, name, count):
            for i in range(count):
                y = block(
                    self.normalization,
                    self.gate,
                    self.expansion,
                    self.pre_normalization,
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
        with ops.use_precision(self.precision):
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


def to_one_channel(params: Any, channels: int) -> Any:
    """Returns the parameters of a network of `channels` as those of a grey one.

    It does to a grey image what the first does to `channels` equal ones: the kernels of
    the head are summed over them, those of the tail averaged.
    """
    inner = dict(params["params"])
    head, tail = inner["head"]["kernel"], inner["tail"]["kernel"]
    head = head.reshape(*head.shape[:2], -1, channels, head.shape[3]).sum(3)
    tail = tail.reshape(*tail.shape[:3], -1, channels).mean(4)
    inner |= {"head": {"kernel": head}, "tail": {"kernel": tail}}
    return {"params": inner}


register("sevnet", SEVNet, width=56, blocks=(3, 3, 3), bottleneck=2)
register("sevnet_lw", SEVNet, width=48, blocks=(1, 2, 3), bottleneck=1)
register("sevnet_s", SEVNet, width=48, blocks=(2, 2), bottleneck=1, stem=2)
# Small enough to train every row of the ablation on two CPU cores.
register("sevnet_xs", SEVNet, width=32, blocks=(1, 1), bottleneck=2, stem=2)

# Lightweight translators of camera noise, see translator.py.
_TRANSLATOR: dict[str, Any] = {
    "network": SEVNet,
    "family": "translator",
    "bottleneck": 1,
}
register("translator", **_TRANSLATOR, width=16, blocks=(1, 1, 1))
register("translator_s", **_TRANSLATOR, width=32, blocks=(1, 1), stem=2)

# The paper's Baseline: bias-free conv-ReLU-conv residual blocks; and at the parameters
# and operations of sevnet_s and sevnet_xs.
_BASELINE: dict[str, Any] = {
    "network": SEVNet,
    "family": "baseline",
    "normalization": "none",
    "gate": "relu",
    "expansion": 1,
}
register("unet_relu", **_BASELINE, width=64, blocks=(4, 4, 4), bottleneck=4)
register("unet_relu_s", **_BASELINE, width=48, blocks=(4, 4), bottleneck=2, stem=2)
register("unet_relu_xs", **_BASELINE, width=32, blocks=(2, 2), bottleneck=4, stem=2)


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of {least} or more, got {value!r}")
