"""Config files: Python files with `get_config()`, named PATH or PATH:ARGUMENT.

A config may define parts: a block, a network, a noise model. Weights record which
config they were trained with, and the user's cache remembers its path, so the parts are
found again when the weights are used. A config is run only if this user has trained
with it and it has not changed since: a weights file cannot make other code run.
"""

import contextlib
import functools
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

# What a config can add to. Named, not imported: some need what a command has not.
TABLES = {
    "gate": "sevnet_jax.models.layers.GATES",
    "normalization": "sevnet_jax.models.layers.NORMALIZATIONS",
    "model": "sevnet_jax.models.base._PRESETS",
    "noise": "sevnet_jax.data.noise.MAKERS",
    "fixed noise": "sevnet_jax.data.noise.FIXED",
    "source": "sevnet_jax.data.sources.KINDS",
    "loss": "sevnet_jax.training.losses.LOSSES",
}
_loaded: dict[Path, tuple[str, ModuleType]] = {}  # the hash of each file that was run
_owners: dict[tuple[str, str], Path] = {}  # of parts: the file that defined each


class ClashError(ValueError):
    """Two configs define different parts of one name."""


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
    """Runs a config file, so that what it defines is known; returns its module.

    A file that has been run and is unchanged is not run again. If one fails, or defines
    a part that another one has defined, nothing of it is kept.
    """
    if not Path(path).is_file():
        raise ValueError(
            f"there is no config file {str(path)!r}; the project has some in configs/"
        )
    place = Path(path).resolve()
    digest = _hash(place)
    known = _loaded.get(place)
    if known and known[0] == digest:
        return known[1]
    # No import finds a module of such a name: a config may be called json.py.
    name = f"config {place}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise ValueError(f"a config is a Python file, got {str(path)!r}")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses look for their module there
    tables = _find_tables()
    before = {what: dict(table) for what, table in tables.items()}
    try:
        with _name_errors(path):
            module_spec.loader.exec_module(module)
        _note_owners(place, digest, before)
    except ValueError:
        for what, table in tables.items():
            table.clear()
            table.update(before[what])
        raise
    _loaded[place] = digest, module
    return module


def _find_tables() -> dict[str, dict[str, Any]]:
    """The tables that this command reads, by what is in them."""
    places = {what: TABLES[what].rpartition(".") for what in _list_read()}
    return {w: getattr(sys.modules[m], table) for w, (m, _, table) in places.items()}


@functools.cache  # before a config loads more: what nobody reads may have two owners
def _list_read() -> list[str]:
    return [w for w, place in TABLES.items() if place.rpartition(".")[0] in sys.modules]


def _note_owners(path: Path, digest: str, before: Mapping[str, dict[str, Any]]) -> None:
    """Notes which parts a file has defined; raises ClashError at another file's."""
    changed = [
        (what, name)
        for what, table in _find_tables().items()
        for name, part in table.items()
        if part is not before[what].get(name)
    ]
    for what, name in changed:
        owner = _owners.get((what, name), path)
        # The same file elsewhere defines the same.
        if name in before[what] and owner != path and _loaded[owner][0] != digest:
            raise ClashError(
                f"{owner} and {path} both define {what} {name!r}; rename one of them, "
                "or use each in a command of its own"
            )
    _owners.update(dict.fromkeys(changed, path))


def list_loaded() -> dict[str, str]:
    """Returns the hashes of the config files that have defined parts, by name."""
    found: dict[str, str] = {}
    owners = {_loaded[path][0] for path in _owners.values()}  # or twins of theirs
    for path, (digest, _) in sorted(_loaded.items()):
        if digest in owners:
            twin = path.name in found
            found[f"{path.parent.name}/{path.name}" if twin else path.name] = digest
    return found


def defines_parts(path: str | Path) -> bool:
    """Whether a config file that was run has defined a part."""
    return Path(path).resolve() in _owners.values()


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
