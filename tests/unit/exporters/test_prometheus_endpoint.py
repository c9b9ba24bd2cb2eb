"""The Prometheus endpoint under clients that mean harm: bounded, guarded, and there for others."""

from __future__ import annotations

import errno
import os
import shutil
import ssl
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporters import ExportRefused
from exporters.prometheus import http_server
from exporters.prometheus.endpoint import Address, Endpoint
from tests.fakes import processes
from tests.fakes.half_open import HALF, answer, closed_by_peer, half_open


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    opened = Endpoint(list, Address(port=0))
    yield opened
    opened.close()


def url(endpoint: Endpoint, path: str = "metrics") -> str:
    return f"http://127.0.0.1:{endpoint.port}/{path}"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("sent", [HALF, b"", b"GET"])
def test_500_half_open_requests_block_nobody_and_hold_little(
    endpoint: Endpoint, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_TIMEOUT_S", 3600.0)  # they do not end by themselves
    before, threads = descriptors(), threading.active_count()
    with half_open(endpoint.port, 500, sent) as connections:
        for _ in range(3):
            assert answer(url(endpoint))[0] == 200
        # Of both ends, 500 belong to this test.
        assert descriptors() - before - len(connections) <= http_server.MAX_WAITING + 8
        assert threading.active_count() == threads
        assert closed_by_peer(connections[0])


def test_a_half_open_request_ends_by_itself(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_TIMEOUT_S", 0.1)
    with half_open(endpoint.port, 1) as (connection,):
        assert closed_by_peer(connection)


def test_a_head_that_never_ends_is_cut_off(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_TIMEOUT_S", 3600.0)
    with half_open(endpoint.port, 1, HALF + b"x" * (http_server.HEAD_LIMIT + 1)) as (connection,):
        assert closed_by_peer(connection)


def test_a_head_in_parts_is_answered(endpoint: Endpoint) -> None:
    with half_open(endpoint.port, 1) as (connection,):
        connection.sendall(b"x\r\n\r")
        connection.sendall(b"\n")
        assert connection.recv(100).startswith(b"HTTP/1.0 200")


def test_a_failing_accept_backs_off(endpoint: Endpoint) -> None:
    real, calls = endpoint._server._listener, []

    class Short:
        """The listener of a process that has no descriptor left for a while."""

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def fileno(self) -> int:
            return real.fileno()

        def accept(self) -> object:
            calls.append(1)
            if len(calls) <= 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return real.accept()

    selector = endpoint._server._selector
    selector.unregister(real)
    endpoint._server._listener = Short()  # type: ignore[assignment]
    selector.register(endpoint._server._listener, 1)
    status, _ = answer(url(endpoint))
    assert status == 200 and len(calls) < 10


def test_a_machine_without_threads_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(ExportRefused, match="no thread can be started"):
        Endpoint(list, Address(port=0))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:9", 200),
        ("evil.com", 403),
        ("127.0.0.1.evil.com", 403),
        ("192.168.1.7", 403),
        ("", 403),
        ("[", 403),
    ],
)
def test_a_foreign_host_header_is_refused(endpoint: Endpoint, host: str, status: int) -> None:
    assert answer(url(endpoint), {"Host": host})[0] == status


def test_on_other_addresses_names_need_the_token_and_addresses_do() -> None:
    opened = Endpoint(list, Address("0.0.0.0", 0, token="right"))
    try:
        for host, token, status in (
            ("192.168.1.7", "right", 200),
            ("alias.cluster", "right", 200),
            ("alias.cluster", "wrong", 403),
            ("192.168.1.7", "wrong", 401),
        ):
            headers = {"Host": host, "Authorization": f"Bearer {token}"}
            assert answer(url(opened), headers)[0] == status
    finally:
        opened.close()


def test_a_wrong_token_costs_no_scrape() -> None:
    opened = Endpoint(list, Address(port=0, token="right", allowed=("proxy.example",)))
    try:
        assert answer(url(opened), {"Authorization": "Bearer wrong"})[0] == 401
        assert answer(url(opened))[0] == 401
        assert opened.collector.scrapes == 0
        headers = {"Authorization": "Bearer right", "Host": "proxy.example"}
        assert answer(url(opened), headers)[0] == 200
        assert answer(url(opened), headers | {"Host": "evil.com"})[0] == 403
        assert opened.collector.scrapes == 1
    finally:
        opened.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_with_tls_too_half_a_handshake_blocks_nobody(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", *words.split(), *names, "-out", certificate, "-keyout", key],
        check=True,
        capture_output=True,
    )
    with pytest.raises(ExportRefused, match="PEM"):
        Endpoint(list, Address(port=0, certfile=str(key), keyfile=str(certificate)))
    opened = Endpoint(list, Address(port=0, certfile=str(certificate), keyfile=str(key)))
    try:
        with half_open(opened.port, 100, b"\x16\x03"):
            trusted = ssl.create_default_context(cafile=str(certificate))
            with urllib.request.urlopen(
                f"https://127.0.0.1:{opened.port}/metrics",
                timeout=processes.HUNG_S,
                context=trusted,
            ) as response:
                assert response.status == 200
    finally:
        opened.close()
