"""The server: waitress, a few threads, loopback unless told otherwise."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from waitress.server import create_server

from probe.errors import UsageError
from probe.store.dashboard_address import serving
from probe.store.files import write_json
from probe.store.layout import dashboard_path, node_name
from probe.store.processes import boot_id, start_ticks

from .access import Access
from .alerts.settings import Settings
from .app import MAX_BYTES, create_app, read_ahead
from .connections import SETTINGS, bound
from .context import CONFIG_KEY, AppContext

THREADS = 8
_LAST_ANSWERS_S = 3.0
_READ_AHEAD_S = 0.5  # the longest that the address waits for the list of runs


class Serving:
    """A server for the runs of one directory, from its creation until :meth:`close`."""

    def __init__(
        self, directory: Path, access: Access, base: str = "/", settings: Settings | None = None
    ):
        """Raises UsageError if the address cannot be listened on."""
        logging.getLogger("waitress").setLevel(logging.ERROR)
        self._asked_at = time.monotonic()
        # Imported here, or the first page would wait for it.
        import probe.compare  # noqa: F401

        self._app = create_app(directory, access, base, settings)
        self._context: AppContext = self._app.config[CONFIG_KEY]
        self._access, self._base = access, self._context.base
        # Very many runs take a while to read, and a page that loads meanwhile takes longer for it.
        reading = threading.Thread(target=read_ahead, args=(self._context,), daemon=True)
        reading.start()
        self._app.before_request(self._note)
        sockets: dict[int, Any] = {}
        try:
            self._server: Any = create_server(
                self._app,
                sockets,
                host=access.host.strip("[]"),
                port=access.port,
                threads=THREADS,
                max_request_body_size=MAX_BYTES,  # read before the token is looked at
                ident="",
                clear_untrusted_proxy_headers=True,
                expose_tracebacks=False,
                **SETTINGS,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot listen on {access.host}:{access.port}: {why}; choose another --port"
            ) from None
        bound(sockets)
        self._directory = directory
        reading.join(_READ_AHEAD_S)
        self._announce()
        self._thread = threading.Thread(target=self._server.run, name="waitress", daemon=True)
        self._thread.start()
        self._context.alerts.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.effective_port)

    @property
    def address(self) -> str:
        """The address of the first page."""
        host = self._access.host.strip("[]")
        if host in ("0.0.0.0", "::"):
            import socket

            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}{self._base}"

    @property
    def url(self) -> str:
        """The address of the first page; with the token, if there is one."""
        token = f"?token={quote(self._access.token)}" if self._access.token else ""
        return self.address + token

    def asked_at(self) -> float:
        """Time of the last request (monotonic seconds)."""
        return self._asked_at

    def live(self) -> bool:
        """True if any run is live."""
        return any(row["status"] == "running" for row in self._context.library.rows())

    def close(self) -> None:
        """Stop listening."""
        if serving(self._directory) == self.port:
            dashboard_path(self._directory).unlink(missing_ok=True)
        # Pending answers first: if they were cut off, waitress would log an error.
        self._server.task_dispatcher.shutdown(cancel_pending=True, timeout=_LAST_ANSWERS_S)
        # In the server's own thread, which waits on these sockets; unless that has ended already.
        with contextlib.suppress(OSError):
            self._server.trigger.pull_trigger(self._server.close)
        self._thread.join(0.5)  # the thread lives on while a browser holds a connection open
        self._context.alerts.close()
        self._context.library.close()

    def _announce(self) -> None:
        """Publish the address for runs to find it; only the first server of a directory does."""
        if self._base != "/" or serving(self._directory) is not None:
            return
        with contextlib.suppress(OSError):  # a directory that is only to be read
            write_json(
                dashboard_path(self._directory),
                {
                    "pid": os.getpid(),
                    "start_ticks": start_ticks(os.getpid()) or 0,
                    "host": node_name(),
                    "boot_id": boot_id(),
                    "port": self.port,
                },
            )

    def _note(self) -> None:
        self._asked_at = time.monotonic()
