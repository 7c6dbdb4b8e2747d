"""The folder of a run: which run it belongs to, and a lock for one run at a time."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import filelock

from sevnet_jax import weights
from sevnet_jax.files import write_atomically
from sevnet_jax.training import checkpoint
from sevnet_jax.training.logs import read_metrics
from sevnet_jax.training.recipe import Recipe, to_config

CONFIG = "config.json"
START = "start.json"  # of a run from weights: which ones, and their past
HISTORY = "history"  # in it: settings that were changed on the way
LOCK = ".lock"
# If one of these is no longer 0, or 0 now, checkpoints have another structure.
FIXED = ("optimizer.clip_norm", "optimizer.weight_decay", "optimizer.ema_decay")
Hashes = Mapping[str, str]  # of weights, by the key that names them; of the config
Start = Mapping[str, Any]  # the sha256 of weights, with their provenance

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def claim(
    path: Path, recipe: Recipe, hashes: Hashes, accept_changes: bool = False
) -> Iterator[None]:
    """Holds the folder for this run; refuses what is not its own.

    `hashes` are those of the weights that the run uses, and of the config file if that
    defines parts. The lock is the system's: it ends with the process, however
    that ends.
    """
    new = _to_json(recipe, hashes)
    if path.exists() and not path.is_dir():
        raise ValueError(f"the workdir {str(path)!r} is a file")
    held = [p.name for p in path.iterdir()] if path.exists() else []
    # Hidden: our lock, and what a kill may leave of a file that was being written.
    foreign = [name for name in held if not name.startswith(".")]
    if foreign and CONFIG not in held:
        raise ValueError(
            f"the workdir {str(path)!r} contains other files ({min(foreign)!r}, ...) "
            f"and no {CONFIG} of a run; choose an empty folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path / LOCK, blocking=False)
    try:
        acquired = lock.acquire()
    except filelock.Timeout:
        raise ValueError(f"another run uses the workdir {str(path)!r}") from None
    with acquired:
        if CONFIG in held:
            changes = _compare(_read_config(path / CONFIG), new)
            fixed = _find_fixed(changes) if has_checkpoint(path) else {}
            if fixed:
                raise ValueError(
                    f"the run in {str(path)!r} has checkpoints, which cannot go on "
                    f"with this: {'; '.join(describe(fixed))}. Use another workdir"
                )
            if changes and not accept_changes:
                raise ValueError(
                    f"the run in {str(path)!r} has another config: "
                    f"{'; '.join(describe(changes))}. Use another workdir, or "
                    "--accept_changes"
                )
        yield


def check_fresh(path: Path) -> None:
    """Raises ValueError if a run without a checkpoint has had one, or has weights.

    Its log alone proves nothing: a kill may come before the first checkpoint. A folder
    without a config has been emptied, but for what is hidden.
    """
    if not (path / CONFIG).exists():
        (path / checkpoint.SAVED).unlink(missing_ok=True)
    elif any((path / name).exists() for name in (weights.FILE, checkpoint.SAVED)):
        last = max((record["step"] for record in read_metrics(path)), default=0)
        has = f"{weights.FILE} and " if (path / weights.FILE).exists() else ""
        raise ValueError(
            f"the run in {str(path)!r} has {has}a log up to step {last}, but no "
            f"checkpoint any more; choose another --workdir, or delete {str(path)!r} "
            "to start over"
        )


def save_config(
    path: Path,
    recipe: Recipe,
    hashes: Hashes,
    step: int = 0,
    start: Start | None = None,
) -> list[dict[str, Any]]:
    """Makes the folder that of a run with this recipe, which is at a step now.

    Returns what has been changed since the run began, each time with the values that
    held before: {"step", "before"}. What it began from is kept as well.
    """
    config, history = _to_json(recipe, hashes), []
    if (path / CONFIG).exists():
        old = _read_config(path / CONFIG)
        history = old.get(HISTORY, [])
        changes = _compare(old, config)
        before = {key: values[0] for key, values in changes.items()}
        # A damaged checkpoint may have sent the run back.
        history = [{**entry, "step": min(entry["step"], step)} for entry in history]
        history += [{"step": step, "before": before}] if before else []
    history = history if step else []
    # First, as without it the folder is not that of a run.
    _write(path / CONFIG, {**config, **({HISTORY: history} if history else {})})
    if start and len(start) > 1:  # or the weights are away, perhaps not for good
        _write(path / START, start)
    return history


def read_start(path: Path, recipe: Recipe) -> Start | None:
    """Returns what a run with a checkpoint began from, if its recipe still names it.

    The weights themselves are needed no more; they may be gone, or others by now.
    """
    if not has_checkpoint(path) or not (path / CONFIG).exists():
        return None
    config, start = _read_config(path / CONFIG), None
    sha256 = config.get("sha256", {}).get("init_weights")
    if not sha256 or config.get("init_weights") != recipe.init_weights:
        return None
    with contextlib.suppress(OSError, ValueError):
        start = json.loads((path / START).read_text())
    if start is None:  # a run of an earlier version
        with contextlib.suppress(OSError, ValueError):
            start = describe_start(weights.load_named(recipe.init_weights))
    if isinstance(start, dict) and start.get("sha256") == sha256:
        return start
    _log.warning(
        "%s, which this run began from, is gone or has changed: of its past, the "
        "new weights will tell the hash only",
        recipe.init_weights,
    )
    return {"sha256": sha256}


def describe_start(found: weights.Weights) -> Start:
    return {"sha256": found.sha256, **found.provenance}


def has_checkpoint(path: Path) -> bool:
    return bool(checkpoint.list_steps(path / checkpoint.FOLDER))


def _write(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text))


def _to_json(recipe: Recipe, hashes: Hashes) -> dict:
    config = to_config(recipe).to_dict()
    for key, value in config["model"].items():
        try:
            json.dumps(value)
        except TypeError:
            raise ValueError(
                f"model.{key} must be a number, text, truth value, None or a tuple, "
                f"which {CONFIG} can hold; got {value!r} ({type(value).__name__})"
            ) from None
    # As it is read again: with lists for tuples.
    return {**json.loads(json.dumps(config)), "sha256": dict(hashes)}


def _read_config(path: Path) -> dict:
    try:
        config = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is unreadable: {error}") from None
    if not isinstance(config, dict) or not {"model", "steps"} <= config.keys():
        raise ValueError(f"{path} is not the config of a run; choose another workdir")
    return config


def _compare(old: dict, new: dict) -> dict[str, tuple[Any, Any]]:
    """What differs between a run's config and a new one, its history left out.

    Early runs, and those without a config file, have no hash of it to compare.
    """
    changes = find_changes({k: v for k, v in old.items() if k != HISTORY}, new)
    if None in changes.get("sha256.config", ()):
        del changes["sha256.config"]
    return changes


def _find_fixed(changes: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Of the changes, those that a run with a checkpoint cannot make."""
    fixed = {
        key: values
        for key, values in changes.items()
        if key in FIXED and bool(values[0]) != bool(values[1])
    }
    if "sha256.init_weights" in changes:
        names = ("init_weights", "sha256.init_weights")
        fixed |= {key: changes[key] for key in names if key in changes}
    return fixed


def find_changes(old: dict, new: dict, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Returns the values before and after of each key that differs."""
    changes: dict[str, tuple[Any, Any]] = {}
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            changes |= find_changes(before, after, f"{prefix}{key}.")
        elif before != after:
            changes[prefix + key] = before, after
    return changes


def describe(changes: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """Returns a line for each key."""
    return [f"{key} was {old!r}, now {new!r}" for key, (old, new) in changes.items()]
