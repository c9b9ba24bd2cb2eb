"""The endpoint that Prometheus scrapes: live runs over HTTP, on loopback unless a token guards it.

The formats (text and OpenMetrics) are the client library's own.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from probe.host_names import is_loopback, names_this_server

from .._shared.live_runs import Runs
from .._shared.run import ExportRefused
from .http_server import BoundedServer
from .live import live_families


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and what guards the endpoint.

    ``allowed`` are further names by which a proxy or another machine may call this one.

    Raises:
        ExportRefused: other than loopback without a token.
    """

    host: str = "127.0.0.1"
    port: int = 9400
    token: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    allowed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ExportRefused(f"port {self.port}: 1 to 65535, or 0 for any free one")
        if self.token is None and not _is_loopback(self.host):
            raise ExportRefused(
                f"{self.host} can be reached from other machines: give a token "
                "(--token-file or PROBE_TOKEN)"
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
        application = _guarded(make_wsgi_app(registry), address)
        try:
            self._server = BoundedServer(
                address.host, address.port, application, _tls_context(address)
            )
        except OSError as error:
            raise ExportRefused(
                f"cannot listen on {address.host}:{address.port}: {error.strerror or error}"
            ) from None
        self.port = self._server.port

    def close(self) -> None:
        """Stop listening."""
        self._server.close()


def _is_loopback(host: str) -> bool:
    if is_loopback(host):
        return True
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return False


def _tls_context(address: Address) -> ssl.SSLContext | None:
    if address.certfile is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(address.certfile, address.keyfile)
    except (OSError, ValueError) as error:
        raise ExportRefused(
            f"TLS cannot use {address.certfile} with {address.keyfile}: {error}; "
            "give a certificate and its key in PEM"
        ) from None
    return context


def _guarded(inner: WSGIApplication, address: Address) -> WSGIApplication:
    """The application, behind the Host header and ``Authorization: Bearer <token>``."""
    expected = None if address.token is None else f"Bearer {address.token}".encode()
    everywhere = not _is_loopback(address.host)

    def refusal(
        start_response: StartResponse, status: str, line: str, *headers: tuple[str, str]
    ) -> list[bytes]:
        start_response(status, [("Content-Type", "text/plain"), *headers])
        return [line.encode()]

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", "")).encode("utf-8", "replace")
        right = expected is not None and hmac.compare_digest(given, expected)
        # Other machines call this one by names that it does not know. A request with the token
        # is not from a web page that was given such a name: browsers never add the token.
        if not (right and everywhere) and not names_this_server(
            str(environ.get("HTTP_HOST", "")), address.host, address.allowed
        ):
            return refusal(
                start_response, "403 Forbidden", "this server is not called by that name\n"
            )
        if expected is not None and not right:
            return refusal(
                start_response,
                "401 Unauthorized",
                "a token is needed: Authorization: Bearer ...\n",
                ("WWW-Authenticate", "Bearer"),
            )
        return inner(environ, start_response)

    return application
