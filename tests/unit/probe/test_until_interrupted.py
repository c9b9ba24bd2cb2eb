"""A server ends at SIGTERM wherever it is, and what it opened is closed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from probe.until_interrupted import until_interrupted
from tests.fakes import processes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_an_event_is_locked(number: int) -> None:
    closed = []
    event, previous = threading.Event(), signal.getsignal(signal.SIGTERM)
    with until_interrupted(), contextlib.ExitStack() as open_:
        open_.callback(closed.append, "server")
        with event._cond:  # type: ignore[attr-defined]  # as `wait` does for an instant
            os.kill(os.getpid(), number)
            event.wait(processes.HUNG_S)
        pytest.fail("the signal did not end the block")
    assert closed == ["server"] and signal.getsignal(signal.SIGTERM) is previous
