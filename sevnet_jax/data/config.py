"""The settings of training batches, which `pipeline` makes."""

import dataclasses

from sevnet_jax.data import noise, sources

MAX_BATCH = 2**20  # rows of a step have this many seeds to themselves
MAX_PATCH = 2**15


@dataclasses.dataclass(frozen=True)
class Data:
    """Clean images, how they are cut, and their noise."""

    source: str = "dead_leaves"  # folder, tfds:NAME, dead_leaves, or "A=3,B=1"
    noise: str = "gaussian:5-20"
    batch_size: int = 4  # over all devices
    patch_size: int = 128
    clip: bool = False  # noisy images to [0, 1]
    downscale_probability: float = 0.0  # of a patch at a part of its size
    downscale_factors: tuple[int, ...] = (2,)
    enlarge_probability: float = 0.0  # of a patch enlarged up to twice: soft content
    cache_bytes: int = sources.CACHE_BYTES

    def __post_init__(self):
        for name, most in [("batch_size", MAX_BATCH), ("patch_size", MAX_PATCH)]:
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be 1..{most}, got {getattr(self, name)}")
        for name in ("downscale_probability", "enlarge_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be 0..1, got {getattr(self, name)}")
        if self.downscale_probability + self.enlarge_probability > 1:
            raise ValueError(
                "downscale_probability and enlarge_probability must be at most 1 "
                f"together, got {self.downscale_probability} and "
                f"{self.enlarge_probability}"
            )
        factors = self.downscale_factors
        if not factors or any(not isinstance(f, int) or f < 1 for f in factors):
            raise ValueError(f"downscale_factors must be whole, >= 1, got {factors}")
        if self.cache_bytes < 0:
            raise ValueError(f"cache_bytes must be 0 or more, got {self.cache_bytes}")
        noise.parse(self.noise)
