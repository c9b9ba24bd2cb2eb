"""How a server waits for its end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


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
