"""MHNet, of Gao et al., Pattern Recognition 2025: a U, then a chain at full size."""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import tokens
from sevnet_jax.models.base import Network, register
from sevnet_jax.models.rivals import official
from sevnet_jax.models.rivals.attention import attend_channels
from sevnet_jax.models.rivals.common import (
    Conv,
    LayerNorm,
    check_lengths,
    crop,
    pad_zeros,
)
from sevnet_jax.models.rivals.frames import Up, run_naf_frame
from sevnet_jax.models.rivals.naf import EPS, NAFBlock, find_pools, gate, pool_mean

LEVELS = 4  # of the U, and steps of the chain
SHARES = ((1, 2), (2, 3), (3, 4), (4, 5))  # of a channel's partners that are kept
Pools = tuple[int | None, ...]


class MHNet(Network):
    """Restored images: the input plus what a U and a chain make of it. No degree.

    Norms make branches, and at each step of the chain the stream itself, degree 0,
    while what the U hands over grows with the input; gates double the degree, and the
    softmax of the fusions has none. Sides are padded with zeros, which is our rule: the
    original refuses what is no multiple of 16. With `train_size`, all that is pooled is
    pooled over boxes of the size that it was trained on.
    """

    channels: int = 3
    width: int = 64
    encoder: tuple[int, ...] = (1, 1, 1, 28)  # blocks per level, finest first
    decoder: tuple[int, ...] = (1, 1, 1, 1)  # coarsest first
    chain: int = 8  # blocks of each step at full size
    heads: int = 8  # of the attention in the middle of the U
    train_size: int | None = None  # side of the patches; None: pools the whole image

    multiple = 2**LEVELS
    reach = None
    keeps_the_law = False

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        self.check_input(x)
        check_lengths(self, encoder=LEVELS, decoder=LEVELS)
        pools = find_pools(self.train_size, LEVELS)
        padded = pad_zeros(x, self.multiple)
        encoded, decoded = Hierarchy(
            self.width, self.encoder, self.decoder, self.heads, pools, name="stage1"
        )(padded)
        y = Conv(self.width, bias=False, name="intro2")(padded)
        y = jnp.concatenate([y, decoded[-1]], axis=-1)
        y = Conv(self.width, 1, bias=False, name="concat12")(y)
        y = Chain(self.chain, pools[0], name="stage2")(y, encoded, decoded)
        y = Conv(self.channels, bias=False, name="ending")(y)
        return crop(padded + y, like=x)


class Hierarchy(nn.Module):
    """Features of all encoders and decoders of NAFNet's U, in order of use. No degree.

    Its middle is an attention between channels, with neither norm nor skip.
    """

    width: int
    encoder: tuple[int, ...]
    decoder: tuple[int, ...]
    heads: int
    pools: Pools

    @nn.compact
    def __call__(
        self, x: Array
    ) -> tuple[Sequence[Array], Sequence[Array]]:  # [B, H, W, C] -> four [...] twice
        counts = [*self.encoder, *self.decoder]

        def stage(name: str, level: int, y: Array) -> Array:
            if level == LEVELS:
                return SelectiveAttention(self.heads, name=f"{name}.0")(y)
            for block in range(counts.pop(0)):
                y = NAFBlock(self.pools[level], name=f"{name}.{block}")(y)
            return y

        return run_naf_frame(Conv(self.width, name="intro")(x), LEVELS, stage)


class SelectiveAttention(nn.Module):
    """Attention between channels, each to its best few, in four selections. Degree 1.

    The selections, from half to four fifths of all, are summed by learned weights.
    """

    heads: int

    @nn.compact
    def __call__(self, x: Array) -> Array:  # [B, H, W, C] -> [B, H, W, C]
        c = x.shape[-1]
        y = Conv(3 * c, 1, bias=False, name="qkv")(x)
        y = Conv(3 * c, groups=3 * c, bias=False, name="qkv_dwconv")(y)
        ones, fifth = nn.initializers.ones, nn.initializers.constant(0.2)
        temperature = self.param("temperature", ones, (self.heads,), jnp.float32)
        amounts = [
            self.param(f"attn{1 + i}", fifth, (), jnp.float32)
            for i in range(len(SHARES))
        ]
        y = attend_channels(y, temperature, functools.partial(select, amounts))
        return Conv(c, 1, bias=False, name="project_out")(y)


def select(amounts: Sequence[Array], logits: Array) -> Array:  # [..., n] -> [..., n]
    """The weighted sum of softmaxes over the largest logits, by four shares of n.

    Logits equal to the smallest of them are all kept.
    """
    n = logits.shape[-1]
    ordered = jnp.sort(lax.stop_gradient(logits), descending=True)
    weights = jnp.zeros_like(logits)
    for amount, (part, whole) in zip(amounts, SHARES, strict=True):
        last = max(n * part // whole, 1) - 1
        kept = logits >= ordered[..., last : last + 1]
        chosen = nn.softmax(jnp.where(kept, logits, -jnp.inf))
        weights += amount.astype(logits.dtype) * chosen
    return weights


class Chain(nn.Module):
    """Features at full size, refined in four steps, a level of the U in each.

    No degree: every step starts with a norm of all that came before.
    """

    blocks: int
    pool: int | None = None

    @nn.compact
    def __call__(
        self, x: Array, encoded: Sequence[Array], decoded: Sequence[Array]
    ) -> Array:  # [B, H, W, C], four [B, H / 2**i, W / 2**i, C * 2**i] twice -> as x
        width = x.shape[-1]
        # One for all steps, though the original's weights hold four.
        join = Conv(width, 1, bias=False, name="conv_dnc1")
        for level in range(LEVELS):
            step = level + 1
            x = y = LayerNorm(EPS, name=f"norm{step}")(x)
            for block in range(self.blocks):
                y = NAFBlock(self.pool, name=f"CABG{step}.{block}")(y)
            first = enlarge(encoded[level], level, f"up_enc{level}")
            first = Conv(width, 1, bias=False, name=f"conv_enc{step}")(first)
            second = join(enlarge(decoded[-step], level, f"up_dec{level}"))
            x = Fusion(self.pool, name=f"skff{step}")(x + y, first, second)
        return x


def enlarge(x: Array, steps: int, name: str) -> Array:  # [B, H, W, C] -> 2**steps sides
    """`x` with its sides doubled and its channels halved, some times. Degree 1."""
    for step in range(steps):
        label = f"{name}.{step}" if steps > 1 else name
        x = Up(1, "up.0", name=label)(x)
    return x


class Fusion(nn.Module):
    """Three maps, summed by weights of their pooled sum. No degree.

    Weights are shares among the channels of a map, not among the maps.
    """

    pool: int | None = None

    @nn.compact
    def __call__(self, *maps: Array) -> Array:  # [B, H, W, C] each -> [B, H, W, C]
        width = maps[0].shape[-1]
        pooled = pool_mean(functools.reduce(jnp.add, maps), self.pool)
        inner = Conv(max(width // 8, 4), 1, bias=False, name="conv_du.0")
        pooled = gate(inner(pooled))
        total = jnp.zeros_like(maps[0])
        for i, features in enumerate(maps):
            logits = Conv(width, 1, bias=False, name=f"fcs.{i}")(pooled)
            shares = nn.softmax(tokens.widen(logits))
            total += features * shares.astype(features.dtype)
        return total


official.declare(
    "mhnet",
    MHNet,
    fields={
        "in_c": "channels",
        "width": "width",
        "enc_blk_nums": "encoder",
        "dec_blk_nums": "decoder",
        "num_cab": "chain",
        **official.POOLING,
    },
    same={"out_c": "in_c"},
    fixed={"middle_blk_num": 1, "bias": False, **official.POOLING_FIXED},
    unused=("outer_pad", "topk_min_gap"),
    # Parts that the original makes and never uses.
    ignored=("intro.weight", "stage1.ending.*", "stage2.conv_dnc[234].weight"),
    levels_vary=False,
)

register("mhnet", MHNet, family="rival")
register(
    "mhnet_xs",
    MHNet,
    family="rival",
    width=16,
    encoder=(1, 1, 1, 8),
    chain=3,
)
