"""The command ``probe`` as a fork of a process that has its imports done.

Tests call commands that read runs hundreds of times; nine tenths of such a call are imports. Each
call is still a process with an environment, a working directory and a standard output of its own.
Commands that start processes, serve or measure start as they do for a user.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NoReturn

COMMANDS = frozenset(
    ("advise", "compare", "diff", "export", "ls", "merge", "objective", "report", "tables")
)
_ROOT = Path(__file__).resolve().parents[2]
_IMPORTED = ("probe.cli", "probe.store", "probe.timeline", "probe.analysis", "probe.attribution",
             "probe.report", "probe.compare")  # fmt: skip
_STARTUP_VARIABLES = ("PYTHON", "LD_")  # an interpreter reads them when it starts
_MOST_BYTES = 1 << 20


def can_run(words: Sequence[str], extra: Mapping[str, str]) -> bool:
    """Whether such a call differs in nothing from one that starts an interpreter."""
    return bool(words) and words[0] in COMMANDS and not any(
        name.startswith(_STARTUP_VARIABLES) for name in extra
    )  # fmt: skip


class WarmCommands:
    """The process that is forked: it lives from the first call until this process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """``probe WORDS`` in a folder.

        Raises:
            subprocess.TimeoutExpired: it takes longer than ``timeout`` seconds; it is killed.
        """
        request = json.dumps([list(words), dict(environment), str(folder)]).encode()
        status_r, status_w = os.pipe()
        with (
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            open(status_r, "rb", buffering=0) as status,
        ):
            with self._lock:
                if self._requests is None:
                    self._requests, self._process = _started()
                    atexit.register(self._end)
                files = [out.fileno(), err.fileno(), status_w]
                socket.send_fds(self._requests, [request], files)
            os.close(status_w)
            code = _awaited(status, words, timeout)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(["probe", *words], code, *texts)

    def _end(self) -> None:
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.wait()


def _awaited(status: BinaryIO, words: Sequence[str], timeout: float) -> int:
    """The exit code of a call, of which the first line of ``status`` is the process id."""
    end = time.monotonic() + timeout
    pid = int(status.readline())
    while not select.select([status], [], [], max(0.0, end - time.monotonic()))[0]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(["probe", *words], timeout)
    return int(status.readline())


def _started() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """(our end of the requests, the process). It ends when our end is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    hidden = ("PYTEST_CURRENT_TEST",)  # it outlives this test
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if name not in hidden}
            | {"OMP_NUM_THREADS": "1"},
        )
    return ours, process


# -- in that process -------------------------------------------------------------------------


def serve(requests: socket.socket) -> None:
    """Fork for every request until the other end is closed."""
    _import_all()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _MOST_BYTES, 3)
        if not request:
            return
        watcher = os.fork()
        if watcher == 0:
            requests.close()
            _watch(request, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _import_all() -> None:
    from probe.small_process import stay_small

    stay_small()
    for name in _IMPORTED:
        package = import_module(name)
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            import_module(info.name)


def _watch(request: bytes, out: int, err: int, status: int) -> NoReturn:
    """Fork the command, say its process id and how it ended."""
    command = os.fork()
    if command == 0:
        os.close(status)
        _run(request, out, err)
    os.write(status, f"{command}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    os.write(status, f"{code}\n".encode())
    os._exit(0)


def _run(request: bytes, out: int, err: int) -> NoReturn:
    """Be the command."""
    words, environment, folder = json.loads(request)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv = ["probe", *words]
    from probe.cli.main import main

    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
