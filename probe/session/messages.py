"""What the user is told on standard error."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any


def say(line: str) -> None:
    """Print one line to standard error if that takes it at once; never raises, never blocks."""
    stream = sys.stderr
    if stream is None:  # print() would take standard output
        return
    with contextlib.suppress(Exception):
        if _takes_a_line(stream):
            print(line, file=stream, flush=True)


def say_to_a_person(line: str) -> None:
    """The same, but only on a terminal: a log stays as it is without us. Never raises."""
    with contextlib.suppress(Exception):
        if sys.stderr.isatty():
            say(line)


def commands_for(run: Path) -> str:
    """What shows a run that has ended."""
    return f"`probe report {run}`, or `probe dashboard {run.parent}` in a browser"


def _takes_a_line(stream: Any) -> bool:
    import select

    try:
        descriptor = stream.fileno()
    except Exception:
        return True  # a notebook's
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))
