"""The dashboard's server under clients that mean harm, and files that others wrote."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import connections, wrong_tokens
from dashboard.access import Access
from dashboard.app import create_app
from dashboard.data import sensors
from dashboard.server import Serving
from probe.store.dashboard_address import serving
from probe.store.layout import dashboard_path
from tests.fakes import processes
from tests.fakes.half_open import HALF, answer, closed_by_peer, half_open

TOKEN = "correct horse"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BODY = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\nx"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    opened = Serving(tmp_path, Access(port=0, token=TOKEN))
    yield opened
    opened.close()


def url(server: Serving, path: str = "assets/style.css") -> str:
    return f"http://127.0.0.1:{server.port}/{path}"


@pytest.mark.parametrize("sent", [HALF, b"", BODY])
@pytest.mark.parametrize("count", [200, 500])
def test_half_open_requests_block_nobody(
    server: Serving, count: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 3600.0)  # they do not end by themselves
    before = len(os.listdir("/proc/self/fd"))
    with half_open(server.port, count, sent) as opened:
        for _ in range(3):
            assert answer(url(server), BEARER)[0] == 200
        held = len(os.listdir("/proc/self/fd")) - before - len(opened)
        assert held <= connections.MAX_CONNECTIONS + 8


def test_a_connection_that_was_of_use_outlives_half_open_ones(server: Serving) -> None:
    browser = http.client.HTTPConnection("127.0.0.1", server.port, timeout=processes.HUNG_S)
    with contextlib.closing(browser):
        for _ in range(2):
            browser.request("GET", "/assets/style.css", headers=BEARER)
            with browser.getresponse() as response:
                assert response.status == 200 and response.read()
            assert browser.sock is not None  # kept for the next request
            with half_open(server.port, 200):
                answer(url(server), BEARER)


def test_a_half_open_request_ends_by_itself(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_TIMEOUT_S", 0.1)
    for sent in (HALF, BODY, b""):
        with half_open(server.port, 1, sent) as (connection,):
            assert closed_by_peer(connection)


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000000\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
    ],
    ids=["body", "head"],
)
def test_a_large_request_is_refused_before_it_has_come(server: Serving, head: bytes) -> None:
    with half_open(server.port, 1, head) as (connection,):
        # Reset: it was closed while the rest was on its way.
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100).split()[1] in (b"413", b"431")


def test_wrong_tokens_slow_down_and_the_right_one_is_never_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(tmp_path, Access(token=TOKEN))
    client = app.test_client()

    def wrong(turn: int) -> int:
        if turn % 2:
            return client.get("/?token=x").status_code
        return client.get("/", headers={"Authorization": "Bearer x"}).status_code

    codes = [wrong(turn) for turn in range(400)]
    assert codes == [401] * wrong_tokens.MOST + [429] * (400 - wrong_tokens.MOST)
    stale = app.test_client()
    stale.set_cookie("phasewatt-8050", "x")
    assert stale.get("/").status_code == 429
    refused = client.get("/?token=x")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60 and refused.text.count("\n") == 1
    assert client.get("/").status_code == 401  # none is not a wrong one
    assert client.get("/", headers=BEARER).status_code == 200
    assert app.test_client().get("/?token=correct+horse").status_code == 200
    monkeypatch.setattr(wrong_tokens, "WINDOW_S", 0.0)
    assert wrong(0) == 401


@pytest.mark.parametrize(
    "path",
    ["/\\evil.com", "//evil.com", "/\\/evil.com", "/\t/evil.com", "/\n//evil.com", "\\\\evil.com"],
)
def test_the_page_after_the_token_leads_nowhere_else(path: str, tmp_path: Path) -> None:
    client = create_app(tmp_path, Access(token=TOKEN)).test_client()
    page = client.get("/?token=correct+horse", environ_overrides={"PATH_INFO": path})
    target = page.text.partition("url=")[2].partition("'")[0]
    assert target.startswith("/") and target[1:2] not in ("/", "\\")
    assert not set(target) & set("\\\t\n")


def test_the_address_that_another_user_wrote_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Serving(tmp_path, Access(port=0))
    try:
        file = dashboard_path(tmp_path)
        assert serving(tmp_path) == opened.port
        if os.geteuid() == 0:
            os.chown(file, 12345, 12345)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert serving(tmp_path) is None
    finally:
        opened.close()


def test_an_address_that_is_a_link_or_a_pipe_is_passed_over(tmp_path: Path) -> None:
    opened = Serving(tmp_path / "a", Access(port=0))
    try:
        directory = tmp_path / "b"
        directory.mkdir()
        dashboard_path(directory).symlink_to(dashboard_path(tmp_path / "a"))
        assert serving(directory) is None
        dashboard_path(directory).unlink()
        os.mkfifo(dashboard_path(directory))
        assert serving(directory) is None
    finally:
        opened.close()


def test_the_sensors_page_runs_no_module_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("probe", "json", "argparse", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    answered = sensors.Sensors().examine()
    assert not (tmp_path / "ran").exists()
    assert json.dumps(answered)
