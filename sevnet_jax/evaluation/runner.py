"""A whole run of the protocol: scenes in, scores out, with a bar, resumable."""

import csv
import dataclasses
import importlib.metadata
import io
import json
import math
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from sevnet_jax.evaluation import protocol
from sevnet_jax.evaluation.methods import Method
from sevnet_jax.evaluation.progress import Progress
from sevnet_jax.evaluation.protocol import Score
from sevnet_jax.evaluation.scenes import Scene
from sevnet_jax.files import write_atomically

PACKAGES = ("sevnet_jax", "jax", "jaxlib", "numpy", "scipy", "pillow")

SOME_SKIPPED = 1


@dataclasses.dataclass(frozen=True)
class Run:
    """What was scored, what could not be, and all that the numbers depend on."""

    scores: tuple[Score, ...]
    skipped: tuple[str, ...]
    provenance: Mapping[str, Any]


def run(
    scenes: Sequence[Scene], methods: Sequence[Method], folder: Path, seed: int
) -> Run:
    """Scores all scenes; what an interrupted run left in `folder` is used."""
    _check_sets(scenes)
    provenance = {
        "protocol": protocol.DESCRIPTION,
        "seed": seed,
        "methods": {method.name: dict(method.provenance) for method in methods},
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }
    images = [(scene.data, scene.image, scene.noises) for scene in scenes]
    progress = Progress(folder / ".progress.jsonl", {**provenance, "images": images})
    left = [scene for scene in scenes if progress.get(scene) is None]
    if len(left) < len(scenes):
        done = len(scenes) - len(left)
        print(f"{done} of {len(scenes)} images were done already", file=sys.stderr)
    skipped, restoring, began = [], 0.0, time.perf_counter()
    bar = tqdm(total=len(scenes), initial=len(scenes) - len(left), unit="image")
    with bar:
        for result in protocol.score_scenes(left, methods):
            bar.update()
            if result.error:
                skipped.append(f"{result.scene.data}/{result.scene.image}")
                bar.write(f"skipped {skipped[-1]}: {result.error}", file=sys.stderr)
                continue
            restoring += result.seconds
            progress.add(result.scene, result.scores)
    seconds = time.perf_counter() - began
    if left:
        print(
            f"{seconds:.0f} s, of which methods took {restoring / seconds:.0%}, noise, "
            "metrics and files the rest",
            file=sys.stderr,
        )
    scores = tuple(s for scene in scenes for s in progress.get(scene) or ())
    progress.finish()
    if not scores:
        raise ValueError("no image could be scored")
    return Run(scores, tuple(skipped), provenance)


def _check_sets(scenes: Sequence[Scene]) -> None:
    seen = set()
    for scene in scenes:
        key = (scene.data, scene.image)
        if key in seen:
            raise ValueError(
                f"{scene.image} is in two sets called {scene.data!r}; give each once, "
                "or rename a folder"
            )
        seen.add(key)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Writes texts by their names."""
    for name, content in files.items():
        write_atomically(
            folder / name, lambda part, text=content: part.write_text(text)
        )


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


def to_json(result: Run) -> str:
    """Returns everything, in JSON's own types: what is not finite becomes null."""

    def finite(value):
        return value if not isinstance(value, float) or math.isfinite(value) else None

    means = [
        {"data": data, "method": method, "noise": noise, **mean}
        for (data, method, noise), mean in protocol.summarize(result.scores).items()
    ]
    rows = [dataclasses.asdict(score) for score in result.scores]
    content = {
        **result.provenance,
        "skipped": list(result.skipped),
        "means": [{k: finite(v) for k, v in mean.items()} for mean in means],
        "scores": [{k: finite(v) for k, v in row.items()} for row in rows],
    }
    return json.dumps(content, indent=1) + "\n"
