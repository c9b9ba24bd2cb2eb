"""``probe dashboard``."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import threading
import time
from typing import Any

from probe.errors import UsageError
from probe.store.layout import runs_dir


def dashboard(options: argparse.Namespace) -> int:
    """Serve until interrupted. Raises ProbeError."""
    directory = runs_dir(options.dir)
    if options.dir and not directory.is_dir():
        raise UsageError(f"there is no directory {directory}")
    try:
        from .access import Access
        from .serving import Serving
    except ImportError as error:
        raise UsageError(f"the dashboard needs {error.name}: pip install 'phasewatt[dashboard]'") \
            from None
    token = options.token or os.environ.get("PROBE_TOKEN") or None
    access = Access(options.host, options.port, token, tuple(options.allow_host))
    serving = Serving(directory, access, _base(options.base_path))
    with contextlib.ExitStack() as open_:
        open_.callback(serving.close)
        if not options.quiet:
            print(f"runs of {directory} at {serving.url}  (Ctrl-C ends it)", flush=True)
        done = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: done.set())
        with contextlib.suppress(KeyboardInterrupt):
            _wait(done, serving, options.idle)
    return 0


def _wait(done: threading.Event, serving: Any, idle_s: float | None) -> None:
    """Until it is told to end, or nothing goes on and nobody has looked for ``idle_s``."""
    while not done.wait(1.0):
        if idle_s is not None and time.monotonic() - serving.asked_at() > idle_s \
                and not serving.live():
            return


def _base(path: str) -> str:
    if any(char in path for char in "?#<>\"' ") or ".." in path or "//" in path:
        raise UsageError(f"--base-path {path!r}: write it like /phasewatt")
    return path


