"""A recorder is replaced without making the training wait for its process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from probe.recorder import spawn
from probe.store.layout import node_dir
from tests.fakes import processes

SHOWS = """
import os, sys
print(os.getcwd(), os.getsid(0) == os.getpid(), sorted(os.listdir("/proc/self/fd"), key=int)[:3])
print(os.get_inheritable(2), len(os.listdir("/proc/self/fd")), sys.stdin.read() == "")
print(os.environ["OMP_NUM_THREADS"], "PYTHONPATH" in os.environ, flush=True)
"""

spawn_thread = pytest.importorskip("probe.recorder.spawn_thread", reason="there was no C compiler")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    node_dir(tmp_path).mkdir()
    return tmp_path


def logged(run: Path, begin: str) -> str:
    """The recorder's log once it has a line that begins so."""
    log = node_dir(run) / "recorder.log"
    assert processes.wait_until(
        lambda: log.exists() and f"\n{begin}" in "\n" + log.read_text(), processes.HUNG_S
    )
    return log.read_text()


def test_it_runs_detached_and_its_thread_ends(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "_command", lambda run, epoch: [sys.executable, "-c", SHOWS])
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    threads = len(os.listdir("/proc/self/task"))
    try:
        assert spawn.spawn_aside(run, 1) is None
        lines = logged(run, "1 ").splitlines()
    finally:
        os.close(inherited)
    assert lines == ["/ True ['0', '1', '2']", "True 4 True", "1 False"]  # 4: with the listing's
    assert processes.wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads)


def test_what_cannot_be_started_stands_in_the_log(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spawn, "_command", lambda run, epoch: [str(run / "none")])
    spawn.spawn_aside(run, 1)
    assert "No such file" in logged(run, "cannot start")


def test_without_the_compiled_thread_it_is_started_as_at_the_begin(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "probe.recorder.spawn_thread", None)
    monkeypatch.setattr(spawn, "_command", lambda run, epoch: [sys.executable, "-c", SHOWS])
    child = spawn.spawn_aside(run, 1)
    assert child is not None and child.wait(processes.HUNG_S) == 0
    assert logged(run, "1 ")


@pytest.mark.parametrize("words", [["sleep"], [1]], ids=["text", "number"])
def test_words_that_are_no_bytes_are_refused(words: list[object]) -> None:
    with pytest.raises(TypeError):
        spawn_thread.start(words, [], 2)


def test_a_closed_log_is_an_error() -> None:
    closed = os.open("/dev/null", os.O_RDONLY)
    os.close(closed)
    with pytest.raises(OSError, match="Bad file"):
        spawn_thread.start([b"true"], [], closed)
