"""The file that --json names."""

import json
from typing import Any

from sevnet_jax.files import check_writable, write_atomically


def check(path: str | None) -> None:
    """Raises ValueError, before any work is done, if no file can be written there."""
    if path is not None:
        check_writable(path, "JSON file")


def write(path: str, content: Any) -> None:
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda part: part.write_text(text))
