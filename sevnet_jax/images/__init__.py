"""Image files and pixels, for all rooms: what people bring, and what is trained on.

`read_pixels` gives the pixels alone, upright and without alpha; `read_picture` keeps
them as the file has them, with all that `write_picture` puts back.
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
