"""The scores of a run that is not finished, so that it can go on."""

import dataclasses
import fcntl
import hashlib
import json
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sevnet_jax.evaluation.protocol import Score
from sevnet_jax.evaluation.scenes import Scene


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
        self._file = self._path.open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise ValueError(f"the same run is going on in {str(folder)!r}") from None
        weakref.finalize(self, self._file.close)  # which gives the lock up
        self._done = self._read()

    def _read(self) -> dict[tuple[str, str], tuple[Score, ...]]:
        done, sound = {}, 0
        self._file.seek(0)
        for line in self._file:
            try:
                content = json.loads(line)
                scores = tuple(Score(**score) for score in content["scores"])
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
        rows = [dataclasses.asdict(score) for score in scores]
        line = json.dumps({"data": key[0], "image": key[1], "scores": rows})
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def finish(self) -> None:
        """To be called when all results are written: now nothing can be lost."""
        self._file.close()
        self._path.unlink(missing_ok=True)
