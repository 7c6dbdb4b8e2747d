"""A translator before a denoiser: camera noise becomes noise it can remove.

After Ha et al. (arXiv 2412.04727), but built of SEVNet's blocks: the translator is a
small SEVNet, so `restored = D(T(y))` keeps the law.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from sevnet_jax.models import ops
from sevnet_jax.models.base import Network
from sevnet_jax.models.sevnet import SEVNet


class Translated(Network):
    """What the denoiser makes of the translated image. Degree 1 if both have it.

    Both see the noisy image's own centre, so that tiles of it can be restored alone.
    """

    translator: SEVNet
    denoiser: SEVNet

    @classmethod
    def of(cls, translator: Network, denoiser: Network) -> "Translated":
        """Returns the two as one; ValueError unless both are bare SEVNets."""
        if not isinstance(translator, SEVNet) or not isinstance(denoiser, SEVNet):
            kinds = f"{type(translator).__name__} and {type(denoiser).__name__}"
            raise ValueError(
                f"translator and denoiser must be SEVNets, not wrapped, got {kinds}"
            )
        return cls(translator, denoiser)

    @staticmethod
    def join(translator: Any, denoiser: Any) -> dict[str, Any]:
        """Returns the variables of both, from those of each."""
        return {
            "params": {
                "translator": translator["params"],
                "denoiser": denoiser["params"],
            }
        }

    def with_fields(self, **fields: Any) -> "Translated":
        """Returns the same networks with other fields."""
        return self.clone(
            translator=self.translator.with_fields(**fields),
            denoiser=self.denoiser.with_fields(**fields),
        )

    @property
    def channels(self) -> int:
        return self.denoiser.channels

    @property
    def multiple(self) -> int:
        return math.lcm(self.translator.multiple, self.denoiser.multiple)

    @property
    def reach(self) -> int | None:
        before, behind = self.translator.reach, self.denoiser.reach
        if before is None or behind is None:
            return None
        return -(-(before + behind) // self.multiple) * self.multiple

    @property
    def told(self) -> tuple[str, ...]:
        return self.denoiser.told

    @property
    def keeps_the_law(self) -> bool:
        # The translator's own centre is never used.
        return self.translator.block.keeps_the_law and self.denoiser.keeps_the_law

    def restore_tile(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        return self(x, jnp.zeros((x.shape[0], 1, 1, 1)) if self.told else None)

    def __call__(
        self, x: Array, centre: Array | None = None
    ) -> Array:  # [B, H, W, C], [B, 1, 1, 1] -> [B, H, W, C]
        return self.restore(x, centre)[1]

    def restore(
        self, x: Array, centre: Array | None = None
    ) -> tuple[Array, Array]:  # -> [B, H, W, C] twice
        """Returns the translated and the restored image."""
        ops.check_images(x)
        if centre is None:
            centre = self.denoiser.find_centre(x)
        # Once for both: what is added must not be translated and then added again.
        padded = ops.pad_to_multiple(x, self.multiple)
        translated = self.translator(padded, centre)
        restored = self.denoiser(translated, centre)
        height, width = x.shape[1:3]
        return translated[:, :height, :width], restored[:, :height, :width]
