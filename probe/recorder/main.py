"""Entry of the recorder process: detach, then serve until the job on this node has ended."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
import traceback
from pathlib import Path

from .log import log
from .spawn import sign


def main(run: str, epoch: int) -> None:
    """Double fork: the parent returns to its waiter at once, the child records."""
    if os.fork():
        os._exit(0)
    # Launchers and terminals signal everybody; the recorder ends when its job has ended.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # `probe run` waits for some of them
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    sign(Path(run), epoch)
    _more_descriptors()
    # Before numpy is loaded: its matrices are small here, and threads that wait for them by
    # spinning take cores from the training.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    try:
        from ..clock import MACHINE_CLOCK
        from .loop import Recorder

        Recorder(Path(run), epoch, MACHINE_CLOCK).serve()
    except BaseException:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        log(f"{stamp} the recorder stopped on an error:\n{traceback.format_exc()}")
        os._exit(1)
    os._exit(0)  # a sensor that hangs in a driver call must not keep the process


def _more_descriptors() -> None:
    """The training's limit may be small, and every ring takes one."""
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
