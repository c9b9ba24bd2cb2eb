"""The Prometheus endpoint of a run, for ``watch(prometheus=…)``: loaded by entry point."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ...clock import Clock
from ...errors import ProbeError
from ...plugins import SERVICES, load
from ..schedule import Timer

_RETRY_S = 2.0  # another recorder may be about to leave the port


class MetricsServer:
    """Serves from :meth:`poll` on; a failure is a warning of the run, never its end."""

    def __init__(self, run: Path, address: str | None, clock: Clock):
        """``address``: a port or host:port; None: nothing is served."""
        self._run, self._address, self._clock = run, address, clock
        self._endpoint: Any = None
        self._retry = Timer()
        self._problem = ""

    @property
    def wanted(self) -> bool:
        """True if the run asked for it."""
        return self._address is not None

    def problems(self) -> list[str]:
        """One clear line, or none."""
        return [self._problem] if self._problem else []

    def poll(self) -> None:
        """Begin to listen, or try again."""
        if self._address is None or self._endpoint is not None:
            return
        if not self._retry.due(self._clock.monotonic_s(), _RETRY_S):
            return
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
