"""How a server waits for its end."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator

_LOOK_S = 1.0


@contextlib.contextmanager
def until_interrupted() -> Iterator[None]:
    """Leave the block without an error at Ctrl-C or SIGTERM; for the main thread.

    SIGTERM raises KeyboardInterrupt as Ctrl-C does. A handler that sets an event instead can stop
    the process for ever: it may run while the interrupted ``Event.wait`` holds the event's lock.
    """
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def wait_for_interruption(is_over: Callable[[], bool] = lambda: False) -> None:
    """Wait in the main thread until a signal raises KeyboardInterrupt, or ``is_over`` says so.

    The interpreter notes a signal and handles it between two instructions. One that comes just
    before the thread falls asleep does not wake it, so no sleep may be without an end.
    """
    while not is_over():
        time.sleep(_LOOK_S)
