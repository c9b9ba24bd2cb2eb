"""Clients that begin a request and never end it, and one that asks properly."""

from __future__ import annotations

import contextlib
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping

from tests.fakes import processes

HALF = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "


@contextlib.contextmanager
def half_open(port: int, count: int, sent: bytes = HALF) -> Iterator[list[socket.socket]]:
    """``count`` connections that have sent a part of a request."""
    with contextlib.ExitStack() as open_:
        connections = []
        for _ in range(count):
            connection = open_.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=processes.HUNG_S)
            )
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
            connections.append(connection)
        yield connections


def answer(
    url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[int, str]:
    """Status and text of the answer."""
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=processes.HUNG_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def closed_by_peer(connection: socket.socket) -> bool:
    """True once the server ends the connection; False if it never does."""
    connection.settimeout(processes.HUNG_S)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True
