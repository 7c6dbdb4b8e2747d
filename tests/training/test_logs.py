import json

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sevnet_jax.training.logs import METRICS, Log, clock, read_metrics


def test_records_after_the_checkpoint_are_made_again(tmp_path):
    log = Log(tmp_path, start=0, steps=9, terminal=False)
    for step in (2, 4, 6):
        log.scalars(step, "train", {"loss": step / 8})
    log.close()
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"step": 8, "lo')  # a kill in the middle of a line
    log = Log(tmp_path, start=4, steps=9, terminal=False)
    log.scalars(6, "train", {"loss": 0.0})
    log.image(6, "validation", np.zeros((4, 5, 3), np.uint8))
    log.close()
    assert [(r["step"], r["loss"]) for r in read_metrics(tmp_path)] == [
        (2, 0.25),
        (4, 0.5),
        (6, 0.0),
    ]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    scalars = events.Scalars("train/loss")
    assert [(s.step, s.value) for s in scalars] == [(2, 0.25), (4, 0.5), (6, 0.0)]
    assert events.Images("validation")[0].width == 5


def test_every_line_is_json_also_without_a_finite_loss(tmp_path):
    log = Log(tmp_path, 0, 1, terminal=False)
    log.scalars(1, "train", {"loss": float("nan")})
    log.close()

    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")

    (line,) = (tmp_path / METRICS).read_text().splitlines()
    assert json.loads(line, parse_constant=refuse)["loss"] is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.2, "3 s"),
        (600, "10 min"),
        (7260, "2 h 1 min"),
        (200_000, "2 d 7 h"),
        (float("inf"), "?"),
    ],
)
def test_durations_are_readable(seconds, text):
    assert clock(seconds) == text
