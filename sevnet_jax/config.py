"""Config files: Python files with `get_config()`, named PATH or PATH:ARGUMENT.

A config may define parts: a block, a network, a noise model. Weights record which
config they were trained with, and the user's cache remembers its path, so the parts are
found again when the weights are used. A config is run only if this user has trained
with it and it has not changed since: a weights file cannot make other code run.
"""

import contextlib
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from sevnet_jax.files import write_atomically
from sevnet_jax.models import Network, create_model
from sevnet_jax.runtime import find_user_cache


def load_config(spec: str) -> ConfigDict:
    """What the file's `get_config` returns, given the argument behind the colon."""
    path, argument = split_spec(spec)
    module = load_parts(path)
    with _name_errors(spec):
        if not hasattr(module, "get_config"):
            raise ValueError("it defines no get_config()")
        return ConfigDict(module.get_config(*([argument] if argument else [])))


@contextlib.contextmanager
def _name_errors(spec: str | Path) -> Iterator[None]:
    """A config is anybody's code: whatever it raises becomes one line."""
    try:
        yield
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"config {spec}: {kind}{error}") from error


def split_spec(spec: str) -> tuple[str, str]:
    """Returns the file and the argument of FILE[:ARGUMENT]; C:/ begins a file."""
    drive = 2 if re.match(r"[A-Za-z]:[\\/]", spec) else 0
    path, _, argument = spec[drive:].partition(":")
    return spec[:drive] + path, argument


def load_parts(path: str | Path) -> ModuleType:
    """Runs a config file, so that what it defines is known; returns its module."""
    if not Path(path).is_file():
        raise ValueError(
            f"there is no config file {str(path)!r}; the project has some in configs/"
        )
    # No import finds a module of such a name: a config may be called json.py.
    name = f"config {Path(path).resolve()}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise ValueError(f"a config is a Python file, got {str(path)!r}")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses look for their module there
    with _name_errors(path):
        module_spec.loader.exec_module(module)
    return module


def list_loaded() -> dict[str, str]:
    """Returns the hashes of the config files that this process has run, by name."""
    prefix = "config "
    paths = [Path(n.removeprefix(prefix)) for n in sys.modules if n.startswith(prefix)]
    return {path.name: _hash(path) for path in sorted(paths) if path.is_file()}


def remember(path: str | Path) -> dict[str, str]:
    """Notes that this user runs a config; returns its name and hash, for weights."""
    path = Path(path).resolve()
    digest = _hash(path)
    with contextlib.suppress(OSError):  # a cache that cannot be written is no reason
        write_atomically(_find_note(digest), lambda p: p.write_text(str(path)))
    return {"file": path.name, "sha256": digest}


def recall(known: Mapping[str, str] | None) -> bool:
    """Runs the config that weights were trained with, if this user has done so before.

    `known` is what `remember` returned then.
    """
    if not known:
        return False
    try:
        path = Path(_find_note(known["sha256"]).read_text())
        if _hash(path) != known["sha256"]:
            return False
    except OSError:  # there is no note, or no longer such a file
        return False
    load_parts(path)
    return True


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _find_note(digest: str) -> Path:
    return find_user_cache() / "configs" / Path(digest).name


def build_model(config: Mapping[str, Any] | ConfigDict) -> Network:
    """The model that `config["model"]` names, with its other keys as changes."""
    if "name" not in config.get("model", {}):
        raise ValueError("the config has no model.name, for example 'sevnet_s'")
    return create_model(**config["model"])
