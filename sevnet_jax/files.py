"""Atomic writes: a file is either complete or not there."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path


def check_writable(path: str | Path, what: str) -> None:
    """Raises ValueError, before any work is done, if no file can be written there."""
    path = Path(path)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write the {what} {str(path)!r}")


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Lets `write` fill a temporary file beside `path`, then puts it in place.

    The temporary file keeps the ending of `path`, by which many writers choose their
    format. Missing folders are made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".new-{uuid.uuid4().hex}{path.suffix}"
    # Not by tempfile, whose files are private: changing that needs the process's umask,
    # which only setting it can read, and other threads write files too.
    temporary.touch(exist_ok=False)
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
