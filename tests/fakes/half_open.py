"""Clients that begin a request and never end it, and one that asks properly."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping

HALF = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "


@contextlib.contextmanager
def half_open(port: int, count: int, sent: bytes = HALF) -> Iterator[list[socket.socket]]:
    """``count`` connections that have sent a part of a request."""
    with contextlib.ExitStack() as open_:
        connections = []
        for _ in range(count):
            connection = open_.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=10)
            )
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
            connections.append(connection)
        yield connections


def answer(
    url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[int, str, float]:
    """Status, text and the seconds that the answer took."""
    began = time.monotonic()
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode(), time.monotonic() - began
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), time.monotonic() - began


def closed_by_peer(connection: socket.socket, within_s: float) -> bool:
    """True if the server ends the connection in time."""
    connection.settimeout(within_s)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True
