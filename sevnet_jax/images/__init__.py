"""Image files and pixels, for training and for denoising.

`read_pixels` returns only the pixels, upright and without alpha. `read_picture` keeps
the pixels as they are in the file, with all metadata that `write_picture` puts back.
"""

from sevnet_jax.images.files import (
    ENDINGS,
    check_target,
    read_picture,
    write_picture,
)
from sevnet_jax.images.picture import Picture, Refused
from sevnet_jax.images.pixels import (
    decode,
    extensions,
    list_files,
    read_named_pixels,
    read_pixels,
    read_size,
    to_channels,
    to_float,
)

__all__ = [
    "ENDINGS",
    "Picture",
    "Refused",
    "check_target",
    "decode",
    "extensions",
    "list_files",
    "read_named_pixels",
    "read_picture",
    "read_pixels",
    "read_size",
    "to_channels",
    "to_float",
    "write_picture",
]
