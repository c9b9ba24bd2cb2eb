"""The Prometheus endpoint of a run, for ``watch(prometheus=…)``: loaded by entry point."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from ...errors import ProbeError
from ...plugins import SERVICES, load

_AGAIN_S = 2.0  # another recorder may be about to leave the port


class Serving:
    """Serves from :meth:`poll` on; trouble is a warning of the run, never its end."""

    def __init__(self, run: Path, address: str | None):
        """``address``: a port or host:port; None: nothing is served."""
        self._run, self._address = run, address
        self._endpoint: Any = None
        self._next = 0.0
        self._problem = ""

    @property
    def wanted(self) -> bool:
        """True if anybody asked for it."""
        return self._address is not None

    def problems(self) -> list[str]:
        """One clear line, or none."""
        return [self._problem] if self._problem else []

    def poll(self) -> None:
        """Begin to listen, or try again."""
        if self._address is None or self._endpoint is not None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _AGAIN_S
        try:
            self._endpoint = load(SERVICES, "prometheus")(
                self._run, self._address, os.environ.get("PROBE_TOKEN")
            )
            self._problem = ""
        except ProbeError as error:
            self._problem = f"prometheus: {error}"
        except Exception as error:
            self._problem = f"prometheus: {type(error).__name__}: {error}"

    def linger(self) -> None:
        """The run is over: wait a little for the scrape that fetches its totals."""
        if self._endpoint is not None:
            with contextlib.suppress(Exception):
                self._endpoint.linger()
