"""The endpoint that Prometheus scrapes: live runs over HTTP, on loopback unless a token guards it.

The server, its formats (text and OpenMetrics) and TLS are the client library's own.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, start_wsgi_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from .._shared.live_runs import Runs
from .._shared.run import ExportRefused
from .live import live_families


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and what guards the endpoint.

    Raises:
        ExportRefused: other than loopback without a token.
    """

    host: str = "127.0.0.1"
    port: int = 9400
    token: str | None = None
    certfile: str | None = None
    keyfile: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ExportRefused(f"port {self.port}: 1 to 65535, or 0 for any free one")
        if self.token is None and not _is_loopback(self.host):
            raise ExportRefused(
                f"{self.host} can be reached from other machines: give a token "
                "(--token or PROBE_TOKEN)"
            )
        if (self.certfile is None) != (self.keyfile is None):
            raise ExportRefused("TLS needs both a certificate and its key")


class RunsCollector(Collector):
    """Reads the live pages at every scrape; keeps nothing in between."""

    def __init__(self, runs: Runs):
        self._runs = runs
        self.scrapes = 0  # since the last time it was set to 0

    def collect(self) -> Iterator[Metric]:
        self.scrapes += 1
        yield from live_families(self._runs(), time.monotonic_ns())

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: which metrics there are depends on the live runs."""
        return ()


class Endpoint:
    """An HTTP server for the metrics of live runs, until :meth:`close`."""

    def __init__(self, runs: Runs, address: Address):
        """Raises ExportRefused if the address cannot be listened on."""
        self.collector = RunsCollector(runs)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self.collector)
        try:
            self._server, self._thread = start_wsgi_server(
                address.port, address.host, registry, address.certfile, address.keyfile
            )
        except OSError as error:
            raise ExportRefused(
                f"cannot listen on {address.host}:{address.port}: {error.strerror or error}"
            ) from None
        if address.token is not None:
            inner = self._server.get_app()
            assert inner is not None
            self._server.set_app(_guarded(inner, address.token))
        self.port = int(self._server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2.0)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        try:
            return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
        except OSError:
            return False


def _guarded(inner: Any, token: str) -> Any:
    """The application, behind ``Authorization: Bearer <token>``."""
    expected = f"Bearer {token}".encode()

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode("utf-8", "replace")
        if hmac.compare_digest(given, expected):
            return inner(environ, start_response)
        start_response(
            "401 Unauthorized", [("Content-Type", "text/plain"), ("WWW-Authenticate", "Bearer")]
        )
        return [b"a token is needed: Authorization: Bearer ...\n"]

    return application
