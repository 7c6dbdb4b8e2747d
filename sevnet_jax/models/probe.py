"""Measures, on small inputs, what a part of a network does not declare.

A part is a Flax module [B, H, W, C] -> [B, H, W, C'] of stride 1. It may declare
`reach`, how many tokens around a token its output depends on (None: all of them), and
`keeps_the_law`, whether it is homogeneous of degree 1. One that declares its reach must
not depend on where in the image a token is: tiles begin elsewhere.
"""

import functools
import itertools

import jax
import numpy as np
from flax import linen as nn

CHANNELS, SIDE = 8, 48  # many fixed windows fit into this side
DRAWS = 3  # of parameters and tokens: one may hide what depends on their signs
SCALES = (2.0, 2.0**-12, 2.0**12)  # absolute epsilons show at one end, limits at both
MOVES = (1.0, 100.0)  # a token that moves far becomes the largest of all
ROUNDING = 1e-4  # of the largest value, between programs for two sizes


def find_reach(part: nn.Module) -> int | None:
    """Returns what a part declares, or how far a change of one token gets.

    None too if the part does not commute with shifts by one token, or takes only some
    sides.
    """
    if hasattr(part, "reach"):
        return part.reach
    return _probe(part)[0]


def find_law(part: nn.Module) -> bool:
    """Returns what a part declares, or whether scaled tokens give scaled results."""
    if hasattr(part, "keeps_the_law"):
        return part.keeps_the_law
    return _probe(part)[1]


@functools.lru_cache(maxsize=64)
def _probe(part: nn.Module) -> tuple[int | None, bool]:
    middle, farthest, law = SIDE // 2, 0, True
    # From a corner, what skips the tokens around the middle is seen too.
    corners = itertools.product((0, SIDE - 1), repeat=2)
    places = [(middle, middle), *corners]
    shape = (1, SIDE, SIDE, CHANNELS)
    tokens = jax.ShapeDtypeStruct(shape, np.float32)
    try:
        shapes = jax.eval_shape(lambda x: part.init(jax.random.key(0), x), tokens)
    except Exception as error:  # libraries raise errors of many kinds
        raise ValueError(
            f"{type(part).__name__} fails on {SIDE}x{SIDE} tokens, with which its "
            f"reach and its law are measured; it must declare both: {error}"
        ) from error
    run = jax.jit(part.apply)
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        params = jax.tree.map(
            lambda s, rng=rng: rng.normal(size=s.shape).astype(s.dtype), shapes
        )
        x = rng.normal(size=shape).astype(np.float32)
        before, step = np.asarray(run(params, x)), rng.normal(size=CHANNELS)
        for (row, column), size in itertools.product(places, MOVES):
            moved = x.copy()
            moved[0, row, column] += (size * step).astype(np.float32)
            after = np.asarray(run(params, moved))
            rows, columns = np.nonzero((before != after).any((0, 3)))
            spread = [np.abs(rows - row), np.abs(columns - column)]
            farthest = max(farthest, *(int(side.max(initial=0)) for side in spread))
        law &= all(
            np.array_equal(run(params, np.float32(k) * x), np.float32(k) * before)
            for k in SCALES
        )
    if farthest >= middle:
        return None, law
    inner = np.s_[:, farthest:, farthest:]  # what does not see the new border
    for cut in (np.s_[:, 1:], np.s_[:, :, 1:]):
        try:
            shifted = np.asarray(run(params, x[cut]))
        except Exception:  # libraries raise errors of many kinds
            return None, law
        gap = np.abs(shifted - before[cut])[inner].max()
        if gap > ROUNDING * np.abs(before).max():
            return None, law
    return farthest, law
