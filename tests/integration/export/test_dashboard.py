"""``probe dashboard`` and ``watch(dashboard=True)``: said, served, shared, and gone by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from probe.cli.main import main
from probe.errors import UsageError
from probe.session.options import dashboard_port
from tests.fakes import processes

WATCHED = """
import os, sys, time
import probe
with probe.watch(name="seen", dashboard=int(sys.argv[1])) as run:
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        with run.phase("work"):
            time.sleep(0.01)
    try:
        os.waitpid(-1, os.WNOHANG)
        print("a child of ours")
    except ChildProcessError:
        print("no child")
"""


def fetch(url: str, **headers: str) -> str:
    with urllib.request.urlopen(
        urllib.request.Request(url, headers=headers), timeout=processes.HUNG_S
    ) as answer:
        return str(answer.read().decode())


def awaited(url: str, seconds: float = 30.0) -> str:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fetch(url)
        except OSError:
            assert time.monotonic() < deadline, f"{url} never answered"
            time.sleep(0.2)


def test_a_training_says_where_it_can_be_seen_and_the_next_one_is_seen_there_too(
    tmp_path: Path,
) -> None:
    port = processes.free_port()
    pid = 0
    try:
        done = processes.run(WATCHED, tmp_path, str(port), "4")
        assert done.returncode == 0 and "no child" in done.stdout
        (url,) = re.findall(r"dashboard at (http://\S+)", done.stderr)
        assert url.startswith(f"http://127.0.0.1:{port}/run/")
        assert "react-entry-point" in awaited(url)  # it stays when the run has ended
        table = fetch(url.replace("/run/", "/table/run/") + "/phases")
        assert "work" in table
        contact = json.loads((tmp_path / "runs" / ".dashboard.json").read_text())
        pid, parent = (
            contact["pid"],
            int(Path(f"/proc/{contact['pid']}/stat").read_text().split()[3]),
        )
        assert parent != os.getpid() and os.getsid(pid) == pid
        assert os.getpriority(os.PRIO_PROCESS, pid) > 0  # the training comes first
        again = processes.run(WATCHED, tmp_path, str(processes.free_port()), "1")
        (second,) = re.findall(r"dashboard at (http://\S+)", again.stderr)
        assert second.startswith(f"http://127.0.0.1:{port}/run/") and second != url
        assert "work" in fetch(second.replace("/run/", "/table/run/") + "/phases")
        # A recorder that is still at work would start the server anew.
        for meta in (tmp_path / "runs").glob("*/run.json"):
            processes.status_at_end(meta.parent)
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)


def test_a_server_that_nobody_needs_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    command = [
        sys.executable,
        "-m",
        "probe",
        "dashboard",
        str(tmp_path / "runs"),
        "--port",
        "0",
        "--idle",
        "1",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=processes.ROOT
    ) as process:
        out, err = process.communicate(timeout=processes.HUNG_S)
    assert process.returncode == 0 and not err
    assert re.match(r"runs of \S+ at http://127\.0\.0\.1:\d+/", out)
    assert not (tmp_path / "runs" / ".dashboard.json").exists()


BAD_WORDS = [
    (["--host", "0.0.0.0"], "give a token"),
    (["--port", "70000"], "port 70000"),
    (["nowhere"], "there is no directory"),
    (["--base-path", "/a b"], "write it like"),
    (["--alert", "often", "--alert-command", "true"], "write one like"),
    (["--alert-webhook", "ftp://x"], "begins with https://"),
    (["--token", " "], "the token is empty"),
]


@pytest.mark.parametrize(("words", "explained"), BAD_WORDS)
def test_bad_words_get_one_clear_line(
    words: list[str],
    explained: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PROBE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # It lowers the priority of its process for good: here that of all tests that follow.
    monkeypatch.setattr("dashboard.command._stay_small", lambda: None)
    with pytest.raises(SystemExit) as leaving:
        main(["dashboard", *words])
    err = capsys.readouterr().err
    assert leaving.value.code == 1 and explained in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "port"),
    [
        (None, None),
        (False, None),
        ("", None),
        ("0", None),
        (True, 8050),
        ("true", 8050),
        ("1", 8050),
        (9000, 9000),
        ("9000", 9000),
    ],
)
def test_what_a_run_may_ask_for(value: object, port: int | None) -> None:
    assert dashboard_port(value) == port  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["yes please", -1, 70000, "80.5"])
def test_nonsense_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="write True, or a port"):
        dashboard_port(value)  # type: ignore[arg-type]
