"""What the user is told on standard error."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


def say(line: str) -> None:
    """Print one line to standard error if that takes it at once; never raises, never blocks."""
    stream = sys.stderr
    if stream is None:  # print() would take standard output
        return
    with contextlib.suppress(Exception):
        if _takes_a_line(stream):
            print(line, file=stream, flush=True)


def _takes_a_line(stream: Any) -> bool:
    import select

    try:
        descriptor = stream.fileno()
    except Exception:
        return True  # a notebook's
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))
