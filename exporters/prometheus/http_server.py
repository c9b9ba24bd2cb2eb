"""A small HTTP server that half-open connections can neither block nor let grow.

It runs inside the recorder, whose threads and descriptors belong to the recording. So one thread
reads all request heads without waiting for any of them, and only complete requests reach the few
threads that answer. If there are too many connections, the one that has been silent longest is
closed.
"""

from __future__ import annotations

import contextlib
import io
import queue
import selectors
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication

MAX_WAITING = 64  # connections whose request head is incomplete
MAX_QUEUED = 64  # complete requests that wait for a thread
THREADS = 4
HEAD_LIMIT = 16 << 10  # bytes
HEAD_TIMEOUT_S = 5.0
_ANSWER_TIMEOUT_S = 5.0
_BACKLOG = 512  # half-open requests are thrown out by later ones: those must get in
_ACCEPT_AT_ONCE = 16
_BACK_OFF_S = 0.5  # after accept failed, for lack of descriptors as a rule
_POLL_S = 0.5
_END = b"\r\n\r\n"

Peer = tuple[str, int] | tuple[str, int, int, int]  # of IPv4 or IPv6


@dataclass(slots=True)
class _Connection:
    """A connection whose request head is being read."""

    socket: socket.socket
    peer: Peer
    deadline_s: float
    handshake: bool  # TLS is not set up yet
    head: bytearray = field(default_factory=bytearray)

    def read_head(self) -> None:
        """Read what has come; returns once the head is complete.

        Raises:
            BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError: more is to come.
            OSError: the peer has gone, or sent more than a head may hold.
        """
        if self.handshake:
            assert isinstance(self.socket, ssl.SSLSocket)
            self.socket.do_handshake()
            self.handshake = False
        while _END not in self.head:
            part = self.socket.recv(4096)
            if not part or len(self.head) + len(part) > HEAD_LIMIT:
                raise ConnectionError("incomplete request")
            self.head += part


class BoundedServer:
    """Serves a WSGI application to GET requests from its creation until :meth:`close`."""

    def __init__(
        self, host: str, port: int, application: WSGIApplication, tls: ssl.SSLContext | None = None
    ):
        """Raises OSError if the address cannot be listened on, or no thread can be started."""
        self._application, self._tls = application, tls
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        self._listener = socket.create_server(
            address, family=family, backlog=_BACKLOG, dualstack_ipv6=both
        )
        self._listener.setblocking(False)
        self.host, self.port = host, int(self._listener.getsockname()[1])
        self._waiting: dict[socket.socket, _Connection] = {}  # oldest first
        self._requests: queue.Queue[_Connection | None] = queue.Queue(MAX_QUEUED)
        self._selector = selectors.DefaultSelector()
        self._accept_again_s: float | None = None
        self._closing = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._workers = self._started(
            [threading.Thread(target=self._work, daemon=True) for _ in range(THREADS)]
        )
        self._loop = self._started([threading.Thread(target=self._run, daemon=True)])
        if not self._workers or not self._loop:
            self.close()
            raise OSError("no thread can be started")

    def close(self) -> None:
        """Stop listening; answers on their way have two seconds."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._waker.send(b"x")
        for thread in self._loop:
            thread.join(2.0)
        for _ in self._workers:
            with contextlib.suppress(queue.Full):
                self._requests.put_nowait(None)
        deadline = time.monotonic() + 2.0
        for thread in self._workers:
            thread.join(max(0.0, deadline - time.monotonic()))
        for connection in [*self._waiting.values()]:
            connection.socket.close()
        for closed in (self._listener, self._wake, self._waker):
            closed.close()
        self._selector.close()

    @staticmethod
    def _started(threads: list[threading.Thread]) -> list[threading.Thread]:
        """Those that could be started: a machine that is short of threads gets fewer."""
        started = []
        for thread in threads:
            with contextlib.suppress(RuntimeError):
                thread.start()
                started.append(thread)
        return started

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                ready = self._selector.select(_POLL_S)
            except OSError:
                self._closing.wait(_BACK_OFF_S)
                continue
            for key, _ in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif (connection := self._waiting.get(key.fileobj)) is not None:  # type: ignore[call-overload]
                    self._read(connection)
            self._expire()

    def _accept(self) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                accepted, peer = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError:  # no descriptor: make room, and leave the rest to the recording
                self._discard_oldest()
                self._selector.unregister(self._listener)
                self._accept_again_s = time.monotonic() + _BACK_OFF_S
                return
            if len(self._waiting) >= MAX_WAITING:
                self._discard_oldest()
            try:
                self._wait_for_head(accepted, peer)
            except (OSError, ValueError):
                accepted.close()

    def _wait_for_head(self, accepted: socket.socket, peer: Peer) -> None:
        accepted.setblocking(False)
        if self._tls is not None:
            accepted = self._tls.wrap_socket(
                accepted, server_side=True, do_handshake_on_connect=False
            )
        connection = _Connection(
            accepted, peer, time.monotonic() + HEAD_TIMEOUT_S, self._tls is not None
        )
        self._selector.register(accepted, selectors.EVENT_READ)
        self._waiting[accepted] = connection
        self._read(connection)  # most requests have come with the connection

    def _read(self, connection: _Connection) -> None:
        try:
            connection.read_head()
        except (BlockingIOError, ssl.SSLWantReadError):
            return self._wait_for(connection, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            return self._wait_for(connection, selectors.EVENT_WRITE)
        except OSError:
            return self._discard(connection)
        self._forget(connection)
        try:
            self._requests.put_nowait(connection)
        except queue.Full:
            connection.socket.close()

    def _wait_for(self, connection: _Connection, events: int) -> None:
        self._selector.modify(connection.socket, events)

    def _expire(self) -> None:
        now_s = time.monotonic()
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if oldest.deadline_s > now_s:
                break
            self._discard(oldest)
        if self._accept_again_s is not None and self._accept_again_s <= now_s:
            self._accept_again_s = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _discard_oldest(self) -> None:
        if self._waiting:
            self._discard(next(iter(self._waiting.values())))

    def _discard(self, connection: _Connection) -> None:
        self._forget(connection)
        connection.socket.close()

    def _forget(self, connection: _Connection) -> None:
        self._waiting.pop(connection.socket, None)
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._selector.unregister(connection.socket)

    def _work(self) -> None:
        while (connection := self._requests.get()) is not None:
            # An answer that fails must not end the recording.
            with contextlib.suppress(Exception):
                connection.socket.settimeout(_ANSWER_TIMEOUT_S)
                _Answer(connection, self)
            with contextlib.suppress(OSError):
                connection.socket.shutdown(socket.SHUT_WR)
            with contextlib.suppress(OSError):
                connection.socket.close()

    # -- what wsgiref's handler asks of its server --

    def get_app(self) -> WSGIApplication:
        """The application."""
        return self._application

    @property
    def base_environ(self) -> dict[str, str]:
        """CGI variables that are the same for all requests."""
        return {
            "SERVER_NAME": self.host,
            "GATEWAY_INTERFACE": "CGI/1.1",
            "SERVER_PORT": str(self.port),
            "REMOTE_HOST": "",
            "CONTENT_LENGTH": "",
            "SCRIPT_NAME": "",
        }


class _Answer(WSGIRequestHandler):
    """Answers a request whose head has been read."""

    def __init__(self, connection: _Connection, server: BoundedServer):
        self._head = bytes(connection.head)
        super().__init__(connection.socket, connection.peer, cast("WSGIServer", server))

    def setup(self) -> None:
        self.connection = self.request
        self.rfile = io.BufferedReader(io.BytesIO(self._head))
        self.wfile = self.request.makefile("wb")

    def finish(self) -> None:
        self.wfile.flush()
        self.wfile.close()

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: str) -> None:  # noqa: A002
        """Nothing: scrapes are not events."""
