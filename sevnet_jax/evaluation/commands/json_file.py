"""The file that --json names."""

from typing import Any

from sevnet_jax.evaluation.report import format_json
from sevnet_jax.files import check_writable, write_atomically


def check(path: str | None) -> None:
    """Raises ValueError, before any work is done, if no file can be written there."""
    if path is not None:
        check_writable(path, "JSON file")


def write(path: str, content: Any) -> None:
    write_atomically(path, lambda part: part.write_text(format_json(content)))
