"""The scores of a run that is not finished, so that it can go on."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sevnet_jax.evaluation.protocol import Score
from sevnet_jax.evaluation.scenes import Scene


class Progress:
    """A file with a line for each scene that is done.

    Its first line says of which run it is: what another one left is not used.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any]):
        self._path = path
        text = json.dumps(identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._done = self._read(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            file.write(json.dumps(digest) + "\n")
            file.writelines(self._line(key) for key in self._done)

    def _read(self, digest: str) -> dict[tuple[str, str], tuple[Score, ...]]:
        done = {}
        lines = self._path.read_text().splitlines() if self._path.is_file() else []
        for number, line in enumerate(lines):
            try:
                content = json.loads(line)
                if number == 0:
                    if content != digest:
                        return {}
                    continue
                scores = tuple(Score(**score) for score in content["scores"])
                done[content["data"], content["image"]] = scores
            except (ValueError, KeyError, TypeError):
                break  # a kill cut it short
        return done

    def _line(self, key: tuple[str, str]) -> str:
        scores = [dataclasses.asdict(score) for score in self._done[key]]
        return json.dumps({"data": key[0], "image": key[1], "scores": scores}) + "\n"

    def get(self, scene: Scene) -> tuple[Score, ...] | None:
        return self._done.get((scene.data, scene.image))

    def add(self, scene: Scene, scores: tuple[Score, ...]) -> None:
        key = (scene.data, scene.image)
        self._done[key] = scores
        with self._path.open("a") as file:
            file.write(self._line(key))

    def finish(self) -> None:
        self._path.unlink()
