"""Which Host headers mean a server of ours: what the web servers refuse DNS rebinding with.

Anyone can make a name of his own point to this machine, and a browser on it then reads a server on
loopback for a foreign page. The Host header gives such a page away.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def names_this_server(header: str, bound: str, allowed: Iterable[str] = ()) -> bool:
    """Whether a Host header means a server.

    Args:
        header: the header's value, with or without a port.
        bound: the address that the server listens on.
        allowed: further names, by which a proxy or another machine may call it.
    """
    try:
        name = (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return False
    if not name:
        return False
    if name in {*LOOPBACK_NAMES, bound.strip("[]").lower(), *(word.lower() for word in allowed)}:
        return True
    if is_loopback(bound):
        return False
    try:  # anyone can make a name point to this machine, but not an address
        ipaddress.ip_address(name)
    except ValueError:
        return name in _machine_names()
    return True


@functools.cache  # asking for the full name may ask a name server
def _machine_names() -> frozenset[str]:
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})
