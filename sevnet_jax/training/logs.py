"""The logs of a run: a progress bar or lines, TensorBoard, and JSONL."""

import io
import json
import logging
import math
import socket
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
from tqdm import tqdm

from sevnet_jax.files import write_atomically

METRICS = "metrics.jsonl"

_log = logging.getLogger(__name__)


class Log:
    """The log of one run; of several processes, the first alone has one."""

    def __init__(self, folder: Path, start: int, steps: int, terminal: bool):
        _forget_later(folder / METRICS, start)
        self._lines = (folder / METRICS).open("a")
        self._events = _open_events(folder / "tensorboard")
        self._add(0, file_version="brain.Event:2")
        # What an earlier process wrote after its last checkpoint is done again.
        self._add(start + 1, session_log=SessionLog(status=SessionLog.START))
        self._steps = steps
        self._bar = tqdm(
            total=steps, initial=start, unit="step", disable=not terminal, leave=True
        )

    def advance(self) -> None:
        self._bar.update()

    def scalars(self, step: int, kind: str, values: dict[str, float]) -> None:
        """Records numbers; `kind` is "train" or "validation"."""
        finite = {n: v if math.isfinite(v) else None for n, v in values.items()}
        record = {"step": step, "kind": kind, **finite}
        self._lines.write(json.dumps(record) + "\n")
        self._lines.flush()
        summary = Summary(
            value=[
                Summary.Value(tag=f"{kind}/{name}", simple_value=value)
                for name, value in values.items()
            ]
        )
        self._add(step, summary=summary)

    def progress(self, step: int, values: dict[str, float], left: float) -> None:
        """Shows how the run goes."""
        shown = (
            f"loss {values['loss']:.5f}, lr {values['learning_rate']:.2e}, "
            f"{values['images_per_second']:.1f} images/s"
        )
        if self._bar.disable:
            _log.info("step %d/%d: %s, %s left", step, self._steps, shown, clock(left))
        else:
            self._bar.set_postfix_str(shown)

    def say(self, text: str) -> None:
        """Prints a line without breaking the bar."""
        if self._bar.disable:
            _log.info(text)
        else:
            self._bar.write(text, file=sys.stderr)

    def image(self, step: int, name: str, pixels: np.ndarray) -> None:
        """Records uint8 [H, W, 1 or 3]; of more channels, the first."""
        pixels = pixels if pixels.shape[-1] == 3 else np.repeat(pixels[..., :1], 3, -1)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        image = Summary.Image(
            height=pixels.shape[0],
            width=pixels.shape[1],
            colorspace=3,
            encoded_image_string=buffer.getvalue(),
        )
        value = Summary.Value(tag=name, image=image)
        self._add(step, summary=Summary(value=[value]))

    def _add(self, step: int, **content) -> None:
        event = Event(step=step, wall_time=time.time(), **content)
        self._events.write(event.SerializeToString())
        self._events.flush()

    def close(self) -> None:
        self._bar.close()
        self._lines.close()
        self._events.close()


def _open_events(folder: Path) -> RecordWriter:
    # Not tensorboard's own writer of events: that one writes from a thread, and what
    # goes wrong there, such as a full disk, cannot be caught.
    folder.mkdir(parents=True, exist_ok=True)
    name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}"
    return RecordWriter((folder / name).open("wb"))


def clock(seconds: float) -> str:
    """Returns a duration as people say it: 45 s, 12 min, 3 h 20 min, 2 d 3 h."""
    if not math.isfinite(seconds):
        return "?"
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def read_metrics(folder: Path) -> list[dict]:
    """Returns the records of a run; a last line cut short by a kill is left out."""
    path, records = folder / METRICS, []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def _forget_later(path: Path, step: int) -> None:
    """Drops the records after `step`, which the run is about to make again."""
    kept = [r for r in read_metrics(path.parent) if r["step"] <= step]
    text = "".join(json.dumps(record) + "\n" for record in kept)
    write_atomically(path, lambda temporary: temporary.write_text(text))
