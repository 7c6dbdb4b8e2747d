"""Blocks of pixels to tokens and back. Only the order of values changes."""

from jax import Array


def space_to_depth(
    x: Array, factor: int
) -> Array:  # [B, H, W, C] -> [B, H/f, W/f, ffC]
    """Blocks of `factor` x `factor` pixels, each laid into one token. Degree 1."""
    b, h, w, c = x.shape
    x = x.reshape(b, h // factor, factor, w // factor, factor, c)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(
        b, h // factor, w // factor, factor * factor * c
    )


def depth_to_space(x: Array, factor: int) -> Array:  # [B, H, W, ffC] -> [B, fH, fW, C]
    """The inverse of `space_to_depth`. Degree 1."""
    b, h, w, c = x.shape
    x = x.reshape(b, h, w, factor, factor, c // factor**2)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(
        b, h * factor, w * factor, c // factor**2
    )
