"""Restores an image strip by strip, from top to bottom, without computing a row twice.

Tiles see the pixels around them again and again. A strip does not: each convolution
keeps the last rows that it saw for the next strip. It yields what the rows so far
allow, so a strip ends some rows earlier after each layer; the last one brings the rest.
Where a signal meets a branch, it waits for the branch's rows. All of this follows from
the shapes, which are the same for all strips but the first and the last.

It works for networks that stream: what they see of other rows passes `Conv`, and
branches meet in `Align`.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import layers, ops
from sevnet_jax.models.base import Network

Kept = dict[str, Array]  # rows that wait for the next strip, by the layer that has them


def restore_strip(
    model: Network, params: Any, strip: Array, kept: Mapping[str, Array], last: bool
) -> tuple[Array, Kept]:  # [B, H, W, C] -> [B, H', W, C]
    """Returns the rows that a strip completes, and what the next strip needs.

    The first strip has an empty `kept`. Its height is a multiple of the network's, and
    more than its reach; that of the others is a multiple. The values are freed of
    centre and spread, as those of tiles are.
    """
    left: Kept = {}

    def follow(call, args, kwargs, context):
        module, path = context.module, "/".join(context.module.path)
        if isinstance(module, layers.Align):
            early, late = args
            early, rows = _append(kept.get(path), early), late.shape[1]
            left[path] = early[:, rows:]
            return call(early[:, :rows], late)
        mixes_rows = isinstance(module, layers.Conv) and module.size > 1
        if not mixes_rows or module.transposed:
            return call(*args, **kwargs)
        (x,) = args
        overlap = module.size - module.stride
        border = overlap // 2
        x = _append(kept[path], x) if kept else _pad_rows(x, border, 0)
        rows = (x.shape[1] - overlap) // module.stride * module.stride
        left[path] = x[:, rows:]
        x = _pad_rows(x, 0, border) if last else x[:, : rows + overlap]
        return ops.convolve(
            x, module.get_variable("params", "kernel"), module.stride, whole=False
        )

    with nn.intercept_methods(follow):
        restored: Any = model.apply(params, strip, method="restore_tile")
    return restored, {} if last else left


def _append(above: Array | None, below: Array) -> Array:
    if above is None:
        return below
    # As a concatenation, the result would be copied once more on CPUs.
    return lax.dynamic_update_slice(
        _pad_rows(below, above.shape[1], 0), above, (0, 0, 0, 0)
    )


def _pad_rows(x: Array, above: int, below: int) -> Array:
    return jnp.pad(x, ((0, 0), (above, below), (0, 0), (0, 0)))
