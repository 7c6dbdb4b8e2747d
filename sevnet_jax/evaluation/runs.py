"""A resumable run of the protocol: scenes in, scores out, with a progress bar."""

import csv
import dataclasses
import functools
import hashlib
import io
import json
import sys
import sysconfig
import time
import types
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import filelock
import jax
from tqdm import tqdm

from sevnet_jax import config
from sevnet_jax.evaluation import protocol
from sevnet_jax.evaluation.methods import Method
from sevnet_jax.evaluation.protocol import Score
from sevnet_jax.evaluation.scenes import Scene
from sevnet_jax.files import write_atomically
from sevnet_jax.runtime import list_versions, name_command

PACKAGES = ("sevnet_jax", "jax", "jaxlib", "numpy", "scipy", "pillow")

SOME_SKIPPED = 1
SOURCES = Path(__file__).parents[1]  # of this package


class Progress:
    """A file with a line for each scene that is done, named after the run it is of.

    So another run in the same folder neither uses nor loses it. The lock is the
    system's: it ends with the process, however that ends.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{str(folder)!r} is a file; results need a folder")
        text = json.dumps(identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._path = folder / f".progress-{digest[:16]}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = filelock.FileLock(self._path.with_suffix(".lock"), blocking=False)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise ValueError(
                f"the same run is already active in {str(folder)!r}"
            ) from None
        self._file = self._path.open("ab+")
        self._release = weakref.finalize(self, _release, self._file, self._lock)
        self._done = self._read()

    def _read(self) -> dict[tuple[str, str], tuple[Score, ...]]:
        done, sound = {}, 0
        self._file.seek(0)
        for line in self._file:
            try:
                content = json.loads(line)
                scores = tuple(map(Score.unflatten, content["scores"]))
                done[content["data"], content["image"]] = scores
            except (ValueError, KeyError, TypeError):
                break  # a kill cut it short
            sound += len(line)
        self._file.truncate(sound)
        return done

    def get(self, scene: Scene) -> tuple[Score, ...] | None:
        return self._done.get((scene.data, scene.image))

    def add(self, scene: Scene, scores: tuple[Score, ...]) -> None:
        key = (scene.data, scene.image)
        self._done[key] = scores
        rows = [score.flatten() for score in scores]
        line = json.dumps({"data": key[0], "image": key[1], "scores": rows})
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._release()

    def finish(self) -> None:
        """To be called when all results are written: now nothing can be lost."""
        self.close()
        self._path.unlink(missing_ok=True)
        Path(self._lock.lock_file).unlink(missing_ok=True)


def _release(file: IO, lock: filelock.BaseFileLock) -> None:
    file.close()
    lock.release()


@dataclasses.dataclass(frozen=True)
class Run:
    """What was scored, what could not be, and all that the numbers depend on.

    `progress` is to be finished when the results are written.
    """

    scores: tuple[Score, ...]
    skipped: tuple[str, ...]
    set_sizes: Mapping[str, int]
    provenance: Mapping[str, Any]
    progress: Progress = dataclasses.field(compare=False, repr=False)


def run(
    scenes: Sequence[Scene], methods: Sequence[Method], folder: Path, seed: int
) -> Run:
    """Scores all scenes; what an interrupted run left in `folder` is used."""
    _check_sets(scenes)
    provenance = {
        "protocol": protocol.DESCRIPTION,
        "seed": seed,
        "methods": {method.name: dict(method.provenance) for method in methods},
        "device": jax.devices()[0].device_kind,
        "versions": list_versions(*PACKAGES),
    }
    if parts := config.list_loaded():
        provenance["parts"] = parts
    images = [(scene.data, scene.noises, _identify(scene)) for scene in scenes]
    identity = {**provenance, "images": images, "code": hash_code()}
    progress = Progress(folder, identity)
    left = [scene for scene in scenes if progress.get(scene) is None]
    if len(left) < len(scenes):
        done = len(scenes) - len(left)
        print(f"{done} of {len(scenes)} images were done already", file=sys.stderr)
    skipped, restoring, began = [], 0.0, time.perf_counter()
    try:
        with tqdm(
            total=sum(len(s.noises) for s in left), unit="noisy image", disable=None
        ) as bar:
            for result in protocol.score_scenes(left, methods, bar.update):
                if result.error:
                    skipped.append(f"{result.scene.data}/{result.scene.image}")
                    bar.write(f"skipped {skipped[-1]}: {result.error}", file=sys.stderr)
                    continue
                restoring += result.seconds
                progress.add(result.scene, result.scores)
    except BaseException:
        progress.close()
        raise
    seconds = time.perf_counter() - began
    if left:
        print(
            f"{seconds:.0f} s, {restoring / seconds:.0%} of it in the methods; noise, "
            "metrics and files ran mostly in parallel",
            file=sys.stderr,
        )
    scores = tuple(s for scene in scenes for s in progress.get(scene) or ())
    if not scores:
        progress.finish()
        raise ValueError("no image could be scored")
    sizes = {scene.data: scene.set_size for scene in scenes}
    return Run(scores, tuple(skipped), sizes, provenance, progress)


def hash_code() -> list[str]:
    """What this process computes with: this package, and what else has no version.

    An installation that is edited keeps its version. Files are read once: what is
    edited later does not run. So this is to be called before a long training, if that
    is scored by the same process.
    """
    package = [path for path in SOURCES.rglob("*.py") if path.is_file()]
    return [_hash_files(package), _hash_files(_list_loaded())]


def _list_loaded() -> list[Path]:
    """Methods of one's own, with their parts.

    Nothing of the standard library or of installed packages, nor what TensorFlow writes
    anew each time that it makes a graph of Python code.
    """
    library = Path(sysconfig.get_path("stdlib"))
    files = {
        Path(file)
        for name, module in [*sys.modules.items()]
        if isinstance(module, types.ModuleType)
        if not name.startswith("__autograph_generated_file")
        if (file := vars(module).get("__file__"))
    }
    own = [
        file
        for file in files
        if not {library, SOURCES} & {*file.parents}
        and not {"site-packages", "dist-packages"} & {*file.parts}
    ]
    return [file for file in own if file.is_file()]


def _hash_files(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(_hash_file(path))
    return digest.hexdigest()


@functools.cache
def _hash_file(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _identify(scene: Scene) -> list[tuple[str, int, int]]:
    """Which files these are: another version under the same name is another file."""
    found = [(path.resolve(), path.stat()) for path in scene.files]
    return [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found]


def _check_sets(scenes: Sequence[Scene]) -> None:
    seen: set[tuple[str, str]] = set()
    roots: dict[str, Path] = {}
    for scene in scenes:
        key = (scene.data, scene.image)
        if key in seen or roots.setdefault(scene.data, scene.root) != scene.root:
            raise ValueError(
                f"two sets are called {scene.data!r}; give each once, or rename a "
                "folder"
            )
        seen.add(key)


def write_files(result: Run, folder: Path, files: Mapping[str, str]) -> None:
    """Writes texts by their names; then the run is finished."""
    for name, content in files.items():
        write_atomically(
            folder / name, functools.partial(Path.write_text, data=content)
        )
    result.progress.finish()


def report_skipped(result: Run) -> int:
    """Returns the exit code: 1 if images were skipped, which are then counted."""
    if not result.skipped:
        return 0
    name = name_command("eval.py")
    print(f"{name}: {len(result.skipped)} images were skipped", file=sys.stderr)
    return SOME_SKIPPED


def to_csv(scores: Sequence[Score]) -> str:
    """Returns a line for each image, noise and method."""
    text = io.StringIO()
    rows = [score.flatten() for score in scores]
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def describe(result: Run) -> dict[str, Any]:
    """Returns everything about a run, for a JSON file."""
    means = [
        {"data": data, "method": method, "noise": noise, **mean}
        for (data, method, noise), mean in protocol.summarize(result.scores).items()
    ]
    return {
        **result.provenance,
        "set_sizes": dict(result.set_sizes),
        "skipped": list(result.skipped),
        "means": means,
        "scores": [score.flatten() for score in result.scores],
    }
