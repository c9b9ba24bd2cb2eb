"""``probe dashboard``."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import sys
import time
from typing import TYPE_CHECKING

from probe.errors import UsageError
from probe.small_process import RefusePandas
from probe.store.layout import runs_dir
from probe.store.runs import find_run
from probe.store.trainings import place_of
from probe.until_interrupted import until_interrupted, wait_for_interruption

if TYPE_CHECKING:
    from .server import Serving

_NICE = 5  # the training comes first
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of mallopt(3)


def dashboard(options: argparse.Namespace) -> int:
    """Serve until interrupted. Raises ProbeError."""
    directory = runs_dir(options.dir)
    _stay_small()
    try:
        from .access import Access
        from .alerts.settings import settings
        from .server import Serving
    except ImportError as error:
        raise UsageError(
            f"the dashboard needs {error.name}: pip install 'phasewatt[dashboard]'"
        ) from None
    access = Access(options.host, options.port, options.token, tuple(options.allow_host))
    alerts = settings(directory, options.alert, options.alert_command, options.alert_webhook)
    serving = Serving(directory, access, _base(options.base_path), alerts)
    with until_interrupted(), contextlib.ExitStack() as open_:
        open_.callback(serving.close)
        if not options.quiet:
            # With the token for who sits before it; a log is no place for it.
            url = serving.url if sys.stdout.isatty() else serving.address
            asks = "  (visitors need the token)" if options.token and url != serving.url else ""
            print(f"runs of {directory} at {url}{asks}  (Ctrl-C ends it)", flush=True)
        wait_for_interruption(lambda: _is_idle(serving, options.idle))
    return 0


def snapshot(options: argparse.Namespace) -> bytes:
    """A run, or a comparison of several, as one HTML file. Raises ProbeError."""
    directory = runs_dir(options.dir)
    try:
        from .context import AppContext
        from .downloads import snapshot_of
    except ImportError as error:
        raise UsageError(
            f"a snapshot needs {error.name}: pip install 'phasewatt[dashboard]'"
        ) from None
    references = list(options.runs)
    if len(references) == 1:
        run = find_run(references[0], directory)
        place = place_of(run)
        directory = (place[0] if place else run).parent
        references = [f"{place[0].name}/{place[1]}" if place else run.name]
    return snapshot_of(AppContext(directory), references, is_open=options.with_origin)


def _stay_small() -> None:
    """Limit processor time and memory: the server runs beside a training.

    It has a lower priority and few malloc arenas, and gives memory back to the system.
    """
    os.nice(_NICE)
    # pyarrow would load it in any thread, so that plotly may see it half loaded.
    sys.meta_path.insert(0, RefusePandas())
    with contextlib.suppress(OSError, AttributeError):  # no glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, 2)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 8 << 20)
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)


def _is_idle(serving: Serving, idle_s: float | None) -> bool:
    """Whether no run is live and no request came for ``idle_s``; never without one."""
    if idle_s is None or time.monotonic() - serving.asked_at() <= idle_s:
        return False
    return not serving.live()


def _base(path: str) -> str:
    if any(char in path for char in "?#<>\"' ") or ".." in path or "//" in path:
        raise UsageError(f"--base-path {path!r}: write it like /phasewatt")
    return path
