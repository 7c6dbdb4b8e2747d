"""SEVNet in PyTorch, for comparison only: the same weights, the same numbers out."""

import math
from typing import Any

import jax
import numpy as np
import torch
import torch.nn.functional as F

from sevnet_jax.models import SEVNet
from sevnet_jax.models.tokens import RELATIVE_EPSILON


def convert_params(params: Any, memory_format: torch.memory_format) -> dict[str, Any]:
    """The Flax parameters as tensors: kernels become [out, in, h, w]."""

    def convert(path, leaf):
        values = np.array(leaf)
        if values.ndim == 1:
            return torch.from_numpy(values)[:, None, None].requires_grad_()
        if path[-2].key.startswith("up_"):
            # A transposed kernel is [in, out, h, w] here.
            kernel = torch.from_numpy(values.transpose(2, 3, 0, 1).copy())
        else:
            kernel = torch.from_numpy(values.transpose(3, 2, 0, 1).copy())
        return kernel.contiguous(memory_format=memory_format).requires_grad_()

    return jax.tree_util.tree_map_with_path(convert, params["params"])


def restore(model: SEVNet, params: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    """What `model.apply` computes, on [B, C, H, W] whose sides need no padding."""

    def stage(y, name, count):
        for i in range(count):
            y = apply_block(params[f"{name}_block_{i}"], y)
        return y

    y = x - x.mean((1, 2, 3), keepdim=True)
    y = F.pixel_unshuffle(y, model.stem) if model.stem > 1 else y
    y = F.conv2d(y, reorder_stem(params["head"]["kernel"], model, 1), padding=1)
    skips = []
    for scale, count in enumerate(model.blocks):
        y = stage(y, f"encoder_{scale}", count)
        skips.append(y)
        y = F.conv2d(y, params[f"down_{scale}"]["kernel"], stride=2)
    y = stage(y, "bottleneck", model.bottleneck)
    for scale, count in reversed(list(enumerate(model.blocks))):
        y = F.conv_transpose2d(y, params[f"up_{scale}"]["kernel"], stride=2)
        y = stage(y + skips[scale], f"decoder_{scale}", count)
    y = F.conv2d(y, reorder_stem(params["tail"]["kernel"], model, 0), padding=1)
    return x + (F.pixel_shuffle(y, model.stem) if model.stem > 1 else y)


def apply_block(params: dict[str, Any], x: torch.Tensor) -> torch.Tensor:
    """SEVB: x + conv(IGM(HNM(conv(x))))."""
    y = F.conv2d(x, params["expand"]["kernel"], padding=1)
    first, second = y.chunk(2, dim=1)
    norm = params["normalize"]
    first = first * (norm["scaling"]["gain"] / math.sqrt(first.shape[1]))
    mean, variance = moments(second)
    normalized = (second - mean) * torch.rsqrt(regularize(mean, variance))
    affine = F.conv2d(second, norm["modulator"]["affine"]["kernel"])
    gamma, beta = affine.chunk(2, dim=1)
    gate = gamma * normalized + beta
    value = F.conv2d(first, params["activate"]["value"]["kernel"], padding=1)
    energy = regularize(*moments(value)) + regularize(*moments(gate))
    gated = value * (gate * torch.rsqrt(energy))
    return x + F.conv2d(gated, params["project"]["kernel"], padding=1)


def moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    return mean, variance


def regularize(mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    return variance + RELATIVE_EPSILON * (variance + mean.square())


def reorder_stem(kernel: torch.Tensor, model: SEVNet, axis: int) -> torch.Tensor:
    """Pixel shuffling orders channels [C, f, f], space-to-depth [f, f, C]."""
    if model.stem == 1:
        return kernel
    size = (model.stem**2, model.channels)
    order = torch.arange(math.prod(size)).reshape(size).T.flatten()
    return kernel.index_select(axis, order)
