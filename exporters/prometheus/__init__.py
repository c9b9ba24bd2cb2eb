"""Prometheus: live runs over HTTP, a stored run as a text file.

probe.watch(prometheus=9400)            the recorder serves its run until shortly after its end
probe serve runs --port 9400            one endpoint for all live runs of a directory
probe export RUN --to prometheus        final figures for node_exporter's textfile collector
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from probe.store.layout import node_name

from .._shared.live_runs import LINGER_S, live_runs, runs_below
from .._shared.run import ExportRefused, StoredRun, write_whole
from .endpoint import Address, Endpoint
from .report import report_families


class _Stored(Collector):
    def __init__(self, run: StoredRun):
        self._run = run

    def collect(self) -> Iterator[Metric]:
        return report_families(self._run.report)


def registry_of(run: StoredRun) -> CollectorRegistry:
    """A registry that holds a stored run's figures."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Stored(run))
    return registry


@dataclass(frozen=True, slots=True)
class PrometheusTextfile:
    """Final figures in the text format, for node_exporter's textfile collector."""

    name: ClassVar[str] = "prometheus"
    output: ClassVar[str] = "{id}.prom"

    def export(self, run: StoredRun, output: Path) -> str:
        write_whole(output, generate_latest(registry_of(run)))
        return f"{output}: final figures in Prometheus' text format"


EXPORTER = PrometheusTextfile()


class RunEndpoint:
    """The endpoint that the recorder starts for ``watch(prometheus=…)``."""

    def __init__(self, run: Path, address: str, token: str | None):
        """``address``: a port, or host:port. Raises ExportRefused."""
        host, _, port = address.rpartition(":")
        listening = Address(host.strip("[]") or "127.0.0.1", _port(port), token)
        self._endpoint = Endpoint(live_runs(lambda: [run], node_name()), listening)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._endpoint.port

    def linger(self) -> None:
        """After the run's end: serve until the totals were scraped, at most 30 s, then close."""
        self._endpoint.collector.scrapes = 0
        deadline = time.monotonic() + LINGER_S / 2
        while time.monotonic() < deadline and not self._endpoint.collector.scrapes:
            time.sleep(0.1)
        time.sleep(0.1)  # until the answer is sent
        self._endpoint.close()


def serve(directory: Path, address: Address) -> Endpoint:
    """One endpoint for all live runs of a directory. Raises ExportRefused."""
    return Endpoint(live_runs(runs_below(directory)), address)


def _port(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ExportRefused(f"{text!r} is not a port number: write for example 9400") from None


__all__ = ["EXPORTER", "Address", "Endpoint", "RunEndpoint", "registry_of", "serve"]
