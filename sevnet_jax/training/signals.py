"""Signals that ask a run to end, noted until it is ready to."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def catch_signals() -> Iterator[threading.Event]:
    """Notes SIGTERM and SIGINT in an event; a second one acts as usual."""
    noted = threading.Event()
    old = {}

    def note(number, frame):
        noted.set()
        signal.signal(number, old[number])

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            old[number] = signal.signal(number, note)
    try:
        yield noted
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
