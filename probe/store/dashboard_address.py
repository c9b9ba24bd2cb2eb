"""``watch(dashboard=True)``: which address the dashboard of a directory of runs has, or will have.

The training process only finds a free port and says the address; the recorder starts the server
(``recorder/servers/dashboard.py``), so that nothing of it is a child of the training. A dashboard
that is there already serves new runs of its directory, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UsageError
from . import files
from .layout import dashboard_path, node_name
from .processes import boot_id, is_alive

PORT = 8050
_TRIED = 20  # ports after the wanted one


def check_installed() -> None:
    """Raise UsageError if what it needs is missing; nothing is imported."""
    import importlib.util  # not when probe is imported

    if importlib.util.find_spec("dash") is None:
        raise UsageError("watch(dashboard=True) needs Dash: pip install 'phasewatt[dashboard]'")


def serving(directory: Path) -> int | None:
    """The port of the dashboard that serves this directory on this machine now."""
    stored = files.read_json(dashboard_path(directory))
    if (
        not isinstance(stored, dict)
        or stored.get("host") != node_name()
        or stored.get("boot_id") != boot_id()
    ):
        return None
    try:
        if is_alive(int(stored["pid"]), int(stored["start_ticks"])):
            return int(stored["port"])
    except (KeyError, TypeError, ValueError):
        pass
    return None


def port_for(directory: Path, wanted: int) -> int:
    """Where a run's dashboard is, or is to be: the wanted port, or one of the next ones."""
    address = serving(directory)
    if address is not None:
        return address
    for port in range(wanted, min(wanted + _TRIED, 65536)):
        if _free(port):
            return port
    return wanted


def address(port: int, run_id: str) -> str:
    """What to open for a run's page, in words."""
    guarded = "  (asks for PROBE_TOKEN)" if os.environ.get("PROBE_TOKEN") else ""
    return f"http://127.0.0.1:{port}/run/{run_id}{guarded}"


def _free(port: int) -> bool:
    import socket  # likewise

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
