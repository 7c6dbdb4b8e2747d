"""Checkpoints on disk, by Orbax, each with the sha256 of its files.

A checkpoint is the folder `STEP` with `state` and `manifest.json`. It is written as
`STEP.part` and renamed when it is complete, so a folder named `STEP` is always
complete. Orbax does not notice damaged arrays; the manifest does.
"""

import hashlib
import json
import logging
import shutil
import threading
from pathlib import Path

import jax
import orbax.checkpoint as ocp

from sevnet_jax.files import write_atomically
from sevnet_jax.training import parallel
from sevnet_jax.training.step import TrainState

MANIFEST = "manifest.json"
FOLDER = "checkpoints"  # in the folder of a run
SAVED = ".saved"  # beside it: a sign that there has been a checkpoint

_log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one run; all processes call all methods, the first writes."""

    def __init__(
        self, folder: Path, keep_last: int, keep_every: int = 0, scored_on: str = ""
    ):
        """`scored_on` tells scores that can be compared from those of other images."""
        # The run's own folder: that of the checkpoints may be a link to elsewhere.
        self._run, self._folder = folder.parent, folder.resolve()
        self._scored_on = scored_on
        self._keep_last, self._keep_every = keep_last, keep_every
        self._orbax = ocp.StandardCheckpointer()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, step: int, state: TrainState, score: float | None = None) -> None:
        """Starts to save; returns once the state has been copied.

        `score` is higher for a better state: the best checkpoint of each `scored_on` is
        kept as well.
        """
        self.wait()
        part = self._folder / f"{step}.part"

        def clear():
            self._folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()

        parallel.on_first(clear)
        self._orbax.save(part / "state", state)
        arguments = (part, step, score, describe_arrays(state))
        self._thread = threading.Thread(target=self._finish, args=arguments)
        self._thread.start()

    def wait(self) -> None:
        """Returns when what was being saved is safe; raises if it could not be."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise OSError(f"could not save a checkpoint: {error}") from error

    def raise_if_failed(self) -> None:
        """Raises at once if the last save has failed."""
        if self._error is not None:
            self.wait()

    def _finish(
        self, part: Path, step: int, score: float | None, arrays: dict[str, str]
    ) -> None:
        try:
            self._orbax.wait_until_finished()
            if parallel.is_first():
                write_manifest(part, step, score, arrays, self._scored_on)
                part.rename(self._folder / str(step))
                (self._run / SAVED).touch()
                self._prune()
        except BaseException as error:  # raised again by `wait`
            self._error = error

    def _prune(self) -> None:
        steps = list_steps(self._folder)
        scores: dict[str, dict[int, float]] = {}
        for step in steps:
            manifest = read_manifest(self._folder / str(step))
            if manifest.get("score") is not None:
                # Manifests of earlier versions do not say on what.
                scored_on = manifest.get("scored_on", self._scored_on)
                scores.setdefault(scored_on, {})[step] = manifest["score"]
        keep = set(steps[-self._keep_last :])
        if self._keep_every:
            keep |= {step for step in steps if step % self._keep_every == 0}
        keep |= {max(found, key=found.__getitem__) for found in scores.values()}
        for step in set(steps) - keep:
            # Renamed first: a folder that is half deleted must not look whole.
            gone = self._folder / f"{step}.part"
            (self._folder / str(step)).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def restore(self, template: TrainState) -> TrainState | None:
        """Returns the newest undamaged checkpoint, placed as `template` is, or None.

        Damaged ones are set aside under another name, with a line in the log; a
        ValueError if all are.
        """
        step = parallel.on_first(self._newest_good)
        step = parallel.agree(-1 if step is None else step)
        if step < 0:
            return None
        path = self._folder / str(step)
        saved, wanted = read_manifest(path)["arrays"], describe_arrays(template)
        for name in sorted({*saved, *wanted}):
            if saved.get(name) != wanted.get(name):
                raise ValueError(
                    f"checkpoint {path} has another model or optimizer: {name} is "
                    f"{saved.get(name)} there, {wanted.get(name)} in the config; "
                    "a run keeps its model: use another workdir"
                )
        return self._orbax.restore(path / "state", _placed_as(template))

    def _newest_good(self) -> int | None:
        for part in self._folder.glob("*.part"):
            shutil.rmtree(part, ignore_errors=True)
        faults: dict[int, str] = {}
        for step in reversed(list_steps(self._folder)):
            fault = find_fault(self._folder / str(step))
            if fault is None:
                self._set_aside(faults)
                return step
            faults[step] = fault
        if faults:
            found = "; ".join(f"step {step}: {fault}" for step, fault in faults.items())
            raise ValueError(
                f"no checkpoint in {str(self._folder)!r} is undamaged ({found}); "
                f"choose another --workdir, or delete {str(self._run)!r} "
                "to start over"
            )
        return None

    def _set_aside(self, faults: dict[int, str]) -> None:
        for step, fault in faults.items():
            path = self._folder / str(step)
            aside = _free_name(path)
            path.rename(aside)
            _log.warning(
                "checkpoint %s is damaged: %s; renamed to %s, continuing without it",
                step,
                fault,
                aside.name,
            )

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self._orbax.close()


def write_manifest(
    path: Path,
    step: int,
    score: float | None,
    arrays: dict[str, str],
    scored_on: str,
) -> None:
    """Records every file of the folder, and by that makes it verifiable."""
    files = {name: _sha256(path / name) for name in _list_files(path)}
    about = {"step": step, "score": score, "scored_on": scored_on}
    content = {**about, "arrays": arrays, "files": files}
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1)
    write_atomically(path / MANIFEST, lambda temporary: temporary.write_text(text))


def read_manifest(path: Path) -> dict:
    """Returns the manifest of a checkpoint; empty if there is no sound one."""
    try:
        content = json.loads((path / MANIFEST).read_text())
        wanted = content.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}
    return content if _digest(content) == wanted else {}


def find_fault(path: Path) -> str | None:
    """Returns what is wrong with a checkpoint, None if nothing is."""
    recorded = read_manifest(path).get("files")
    if not recorded:
        return "its manifest is missing or has changed"
    found = set(_list_files(path))
    for name, digest in recorded.items():
        if name not in found:
            return f"{name} is missing"
        if _sha256(path / name) != digest:
            return f"{name} has changed"
    extra = found - set(recorded)
    return f"{min(extra)} was added" if extra else None


def list_steps(folder: Path) -> list[int]:
    """Returns the steps of which there are whole checkpoints, in order."""
    if not folder.is_dir():
        return []
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal())


def describe_arrays(state: TrainState) -> dict[str, str]:
    """Returns type and shape of every array, by its place in the state."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {
        jax.tree_util.keystr(path): f"{array.dtype}{list(array.shape)}"
        for path, array in leaves
    }


def _placed_as(template: TrainState) -> TrainState:
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), template
    )


def _digest(content: dict) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _list_files(path: Path) -> list[str]:
    return sorted(
        p.relative_to(path).as_posix()
        for p in path.rglob("*")
        if p.is_file() and p.name != MANIFEST
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _free_name(path: Path) -> Path:
    for count in range(1, 1000):
        candidate = path.with_name(f"{path.name}.damaged{count}")
        if not candidate.exists():
            return candidate
    raise ValueError(f"too many damaged checkpoints beside {path}")
