"""Restores an image strip by strip, from top to bottom, without computing a row twice.

Tiles see the pixels around them again and again. A strip does not: each convolution
keeps the last rows that it saw for the next strip. Its result is then some rows behind
its input, and so is the restored image, whose last rows come when the image has ended.
Where a signal meets a branch, it waits for the branch's rows. Rows above and below the
image are zero before each convolution, as they are around a whole image.

All strips have one shape, so there is one program. It works for networks that stream:
what they see of other rows passes `Conv`, and branches meet in `Align`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import Array, lax

from sevnet_jax.models import layers, ops
from sevnet_jax.models.base import Network

Rows = dict[str, Array]  # that wait for the next strip, by the layer that has them
# How many rows of an image get to a layer with the first strip: those below it are
# missing there. The restored image is OUTPUT.
Arrivals = Mapping[str, int]
OUTPUT = "output"


def plan(
    model: Network, params: Any, strip: jax.ShapeDtypeStruct
) -> tuple[dict[str, jax.ShapeDtypeStruct], Arrivals]:
    """Returns what waits between two strips [B, H, W, C], and the arrivals.

    H is a multiple of the network's, and more than its reach.
    """
    arrivals: dict[str, int] = {}

    def run(params, strip):
        restored, waiting, seen = _follow(model, params, strip, None, lambda _, x: x)
        arrivals.update(seen)
        return restored, waiting

    restored, waiting = jax.eval_shape(run, params, strip)
    behind = strip.shape[1] - restored.shape[1]
    if model.reach is None or behind > model.reach:
        raise ValueError(
            f"a network that streams must declare its reach: it is {behind} rows "
            f"behind, and declares {model.reach}"
        )
    return waiting, {**arrivals, OUTPUT: restored.shape[1]}


def restore_strip(
    model: Network,
    params: Any,
    strip: Array,
    waiting: Rows,
    top: Array,
    height: Array,
    arrivals: Arrivals,
) -> tuple[Array, Rows]:  # [B, H, W, C] -> the same
    """Returns as many restored rows as the strip has, and what waits for the next one.

    `top` is the strip's first row in an image of `height` rows; both are multiples of
    the network's, and strips go on until all rows are restored. The restored rows begin
    H - arrivals[OUTPUT] rows earlier. Before the first strip, zeros are `waiting`. The
    values are freed of centre and spread, as those of tiles are.
    """

    def blank(path: str, x: Array) -> Array:
        rows = x.shape[1]
        side = strip.shape[1] // rows
        row = top // side - (rows - arrivals[path]) + jnp.arange(rows)
        inside = (row >= 0) & (row * side < height)
        factor = lax.optimization_barrier(inside.astype(x.dtype))
        return x * factor[None, :, None, None]

    restored, waiting, _ = _follow(model, params, strip, waiting, blank)
    return restored, waiting


def _follow(
    model: Network,
    params: Any,
    strip: Array,
    waiting: Rows | None,
    blank: Callable[[str, Array], Array],
) -> tuple[Any, Rows, Arrivals]:
    """Restored rows, what waits then, and the rows that came to each layer.

    If nothing is `waiting`, not even zeros, the strip is the top of an image.
    """
    left: Rows = {}
    arrived: dict[str, int] = {}

    def append(path: str, x: Array, border: int) -> Array:
        above = border if waiting is None else waiting[path].shape[1]
        x = jnp.pad(x, ((0, 0), (above, 0), (0, 0), (0, 0)))
        if waiting is None:
            return x
        # A concatenation would be one copy more on CPUs.
        return lax.dynamic_update_slice(x, waiting[path], (0, 0, 0, 0))

    def follow(call, args, kwargs, context):
        module, path = context.module, "/".join(context.module.path)
        if isinstance(module, layers.Align):
            early, late = args
            rows = late.shape[1]
            if waiting is None:
                left[path] = early[:, rows:]
                return call(early[:, :rows], late)
            above = waiting[path]
            k = above.shape[1]
            left[path] = early[:, rows - k :]
            delayed = jnp.concatenate([above, early[:, : rows - k]], 1)
            return call(delayed, late)
        if not isinstance(module, layers.Conv):
            return call(*args, **kwargs)
        if module.size == module.stride and (module.size == 1 or module.transposed):
            return call(*args, **kwargs)  # each row is made of one
        if module.transposed or path in left:
            raise ValueError(
                f"{path} cannot stream: a transposed convolution must be as wide as "
                "its stride, and each one be called once"
            )
        (x,) = args
        arrived[path] = x.shape[1]
        overlap = module.size - module.stride
        x = append(path, blank(path, x), overlap // 2)
        rows = (x.shape[1] - overlap) // module.stride * module.stride
        left[path] = x[:, rows:]
        kernel = module.get_variable("params", "kernel")
        return ops.convolve(x[:, : rows + overlap], kernel, module.stride, whole=False)

    with nn.intercept_methods(follow):
        restored = model.apply(params, strip, method="restore_tile")
    return restored, left, arrived
