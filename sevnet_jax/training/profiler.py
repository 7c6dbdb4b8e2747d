"""The trace that --profile writes."""

from collections.abc import Callable
from pathlib import Path

import jax

from sevnet_jax.training.state import TrainState

WARM_AFTER, TRACED = 10, 5  # steps


class Profiler:
    """Traces a few steps of a run that is warm."""

    def __init__(self, folder: Path, start: int, last: int):
        self._folder = folder
        self._steps = range(min(start + WARM_AFTER, last), last)[:TRACED]

    def before(self, step: int, state: TrainState, say: Callable[[str], None]) -> None:
        """Begins or ends the trace, if that is due before this step."""
        if not self._steps:
            return
        if step == self._steps.start:
            jax.profiler.start_trace(str(self._folder))
        if step == self._steps.stop:
            jax.block_until_ready(state)
            jax.profiler.stop_trace()
            say(f"profile of {len(self._steps)} steps: {self._folder}")
