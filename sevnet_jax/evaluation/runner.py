"""A whole run of the protocol: scenes in, scores out, with a bar, resumable."""

import csv
import dataclasses
import io
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from tqdm import tqdm

from sevnet_jax.evaluation import protocol
from sevnet_jax.evaluation.methods import Method
from sevnet_jax.evaluation.progress import Progress
from sevnet_jax.evaluation.protocol import Score
from sevnet_jax.evaluation.scenes import Scene
from sevnet_jax.files import write_atomically
from sevnet_jax.runtime import list_versions

PACKAGES = ("sevnet_jax", "jax", "jaxlib", "numpy", "scipy", "pillow")

SOME_SKIPPED = 1


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
    images = [(scene.data, scene.noises, _identify(scene)) for scene in scenes]
    progress = Progress(folder, {**provenance, "images": images})
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
            f"{seconds:.0f} s, of which methods took {restoring / seconds:.0%}; noise, "
            "metrics and files, most of it meanwhile, the rest",
            file=sys.stderr,
        )
    scores = tuple(s for scene in scenes for s in progress.get(scene) or ())
    if not scores:
        progress.finish()
        raise ValueError("no image could be scored")
    sizes = {scene.data: scene.set_size for scene in scenes}
    return Run(scores, tuple(skipped), sizes, provenance, progress)


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
            folder / name, lambda part, text=content: part.write_text(text)
        )
    result.progress.finish()


def report_skipped(result: Run) -> int:
    """Returns the exit code: 1 if images were skipped, which are then counted."""
    if not result.skipped:
        return 0
    print(f"eval.py: {len(result.skipped)} images were skipped", file=sys.stderr)
    return SOME_SKIPPED


def to_csv(scores: Sequence[Score]) -> str:
    """Returns a line for each image, noise and method."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Score)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(score, name) for name in names] for score in scores)
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
        "scores": [dataclasses.asdict(score) for score in result.scores],
    }
