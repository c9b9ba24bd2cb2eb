"""Live runs, sent to a collector every few seconds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from probe.store.live import LivePage
from probe.units import NS_PER_S

from .._shared.live_runs import LiveRun, Runs
from .._shared.run import ExportRefused
from .points import live_points
from .sender import TIMEOUT_S, Sender, metrics_data, resource_of

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

EVERY_S = 10.0


class Pusher:
    """Sends live runs to a collector until :meth:`close`; a failure is printed once."""

    def __init__(self, runs: Runs, endpoint: str, every_s: float = EVERY_S):
        """Raises ExportRefused if the packages are missing or the endpoint is not a URL."""
        self._runs, self._every_s = runs, every_s
        self._sender = Sender(endpoint)
        self.url = self._sender.url
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send once more, then stop."""
        self._done.set()
        self._thread.join(2 * TIMEOUT_S)
        self._sender.close()

    def _run(self) -> None:
        broken = False
        while True:
            last = self._done.wait(self._every_s)
            try:
                for run in self._runs():
                    for page in run.live.pages:
                        self._sender.send(page_data(run, page))
                broken = False
            except ExportRefused as error:
                if not broken:
                    print(
                        f"probe: {error}; it is tried again every {self._every_s:g} s", flush=True
                    )
                broken = True
            if last:
                return


def page_data(run: LiveRun, page: LivePage) -> MetricsData:
    """The metrics of a run's live page of one node."""
    begin_s = page.wall_s if run.begin_s is None else run.begin_s  # a sum has to begin somewhere
    resource = resource_of(run, page.node)
    return metrics_data(
        live_points(page), resource, round(begin_s * NS_PER_S), round(page.wall_s * NS_PER_S)
    )
