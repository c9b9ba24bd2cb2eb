"""Connections that say nothing must not keep out those that ask.

waitress stops accepting when it has as many connections as it may have, and keeps silent ones for
minutes: so many half-open requests block everybody. Here a new connection takes the place of the
one that has been silent longest, and a request that does not come to its end has a deadline.
"""

from __future__ import annotations

import time
from typing import Any

from waitress.channel import HTTPChannel

MAX_CONNECTIONS = 128
REQUEST_TIMEOUT_S = 10.0  # from a request's first byte to its last
_MAX_HEADER = 32 << 10  # bytes
_IDLE_S = 60  # between the requests of one connection

# Of waitress. Its own limit is never reached: it counts a few sockets that are no connections.
SETTINGS = {
    "connection_limit": MAX_CONNECTIONS + 64,
    "max_request_header_size": _MAX_HEADER,
    "channel_timeout": _IDLE_S,
    "cleanup_interval": 10,
    "asyncore_use_poll": True,  # select() ends with descriptor 1023
}


class Connection(HTTPChannel):  # type: ignore[misc]
    """A connection to the dashboard. All methods run in the thread that reads the sockets."""

    def __init__(self, server: Any, *arguments: Any, **options: Any):
        self._deadline_s: float | None = time.monotonic() + REQUEST_TIMEOUT_S
        self._has_asked = False
        others = list(server.active_channels.values())
        super().__init__(server, *arguments, **options)
        if len(others) >= MAX_CONNECTIONS:
            silent = [other for other in others if not other.requests]
            # Browsers keep connections that were of use; half-open requests never were.
            last = min(
                silent,
                key=lambda channel: (channel._has_asked, channel.last_activity),
                default=self,
            )
            last.handle_close()

    def received(self, data: bytes) -> bool:
        """Take what was read."""
        taken = bool(super().received(data))
        if self.request is None:
            self._has_asked, self._deadline_s = True, None
        elif self._deadline_s is None:
            self._deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
        return taken

    def readable(self) -> bool:
        """Whether more is to be read; asked at least once a second."""
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            self.will_close = True
        return bool(super().readable())


def bound(sockets: dict[int, Any]) -> None:
    """Make the servers among waitress's sockets use :class:`Connection`."""
    for server in sockets.values():
        if hasattr(server, "channel_class"):
            server.channel_class = Connection
