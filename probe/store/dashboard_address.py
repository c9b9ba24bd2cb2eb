"""``watch(dashboard=True)``: the address of the dashboard of a directory of runs.

The training process only finds a free port and prints the address; the recorder starts the server
(``recorder/servers/dashboard.py``), so that the training has no child process. A dashboard that
already runs also serves new runs of its directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import UsageError
from . import untrusted
from .layout import dashboard_path, node_name
from .processes import boot_id, is_alive, owner_of

PORT = 8050
_TRIED = 20  # ports after the wanted one
_MOST_BYTES = 1 << 16  # of the file


def check_installed() -> None:
    """Raise UsageError if what it needs is missing; nothing is imported."""
    import importlib.util  # not when probe is imported

    if importlib.util.find_spec("dash") is None:
        raise UsageError("watch(dashboard=True) needs Dash: pip install 'phasewatt[dashboard]'")


def serving(directory: Path) -> int | None:
    """The port of the dashboard that serves this directory on this machine now.

    What another user than root wrote is passed over: in a directory that several share he could
    send this one to a server of his.
    """
    stored = _read_own(dashboard_path(directory))
    try:
        here = (stored["host"], stored["boot_id"]) == (node_name(), boot_id())
        pid, port = int(stored["pid"]), int(stored["port"])
        alive = here and is_alive(pid, int(stored["start_ticks"]))
        # Another user's would hear the token; who wrote the file does not say whose it is.
        if alive and owner_of(pid) == os.geteuid() and 0 < port < 65536:
            return port
    except (KeyError, TypeError, ValueError, OverflowError):
        pass  # no such file, or damaged
    return None


def port_for(directory: Path, wanted: int) -> int:
    """Where a run's dashboard is, or is to be: the wanted port, or one of the next ones."""
    running = serving(directory)
    if running is not None:
        return running
    ports = range(wanted, min(wanted + _TRIED, 65536))
    return next((port for port in ports if _free(port)), wanted)


def address(port: int, run_id: str) -> str:
    """What to open for a run's page, in words."""
    guarded = "  (asks for PROBE_TOKEN)" if os.environ.get("PROBE_TOKEN") else ""
    return f"http://127.0.0.1:{port}/run/{run_id}{guarded}"


def _read_own(path: Path) -> Any:
    """The JSON of a small file that belongs to this user or to root; else None."""
    try:
        with untrusted.opened(path, _MOST_BYTES, owned=False) as file:
            if os.fstat(file.fileno()).st_uid not in (os.geteuid(), 0):
                return None
            return untrusted.parsed(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return None


def _free(port: int) -> bool:
    import socket  # likewise

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
