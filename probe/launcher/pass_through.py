"""Start a command as if nobody stood before it: signals, end and terminal are its own."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

FORWARDED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_SI_USER = 0  # sent by kill(2); the terminal's own signals reach the whole group
_SI_QUEUE, _SI_TKILL = -1, -6


def pass_through(
    command: Sequence[str],
    environment: Mapping[str, str],
    duties: Sequence[tuple[float, Callable[[], None]]] = (),
) -> int:
    """Run a command to its end.

    Args:
        command: its words.
        environment: of the command.
        duties: what to do once so many seconds have passed, if it still runs; ascending.

    Returns:
        Its exit code, negative for a signal.

    Raises:
        OSError: it cannot be started.
    """
    waited = FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        pid = os.posix_spawnp(command[0], list(command), dict(environment), setsigmask=before)
        begun_s, left = time.monotonic(), list(duties)
        while True:
            if left:
                rest_s = begun_s + left[0][0] - time.monotonic()
                got = signal.sigtimedwait(waited, max(0.0, rest_s))
                if got is None:
                    left.pop(0)[1]()
                    continue
            else:
                got = signal.sigwaitinfo(waited)
            if got.si_signo == signal.SIGCHLD:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status)
            elif got.si_code in (_SI_USER, _SI_QUEUE, _SI_TKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, got.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
