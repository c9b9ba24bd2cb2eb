"""A server ends at SIGTERM wherever it is, and what it opened is closed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest

from probe.until_interrupted import until_interrupted, wait_for_interruption
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_does_not_wake_the_main_thread(number: int) -> None:
    """As one that comes just before it falls asleep: here another thread receives it."""
    begun_s = time.monotonic()
    receiver = threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), number))
    receiver.start()
    with until_interrupted():
        wait_for_interruption()
    receiver.join()
    assert 0.1 <= time.monotonic() - begun_s < processes.HUNG_S
