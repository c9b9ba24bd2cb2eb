"""A command's standard streams: closed, full, or in another encoding than UTF-8."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import processes

PROBE = f"{sys.executable} -m probe"
PRINTS = f"{sys.executable} -c 'import sys; print(1); sys.exit(7)'"


def shell(line: str, tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell, run in an empty directory."""
    return subprocess.run(
        ["sh", "-c", line],
        env=processes.environment(tmp_path / "runs") | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=processes.HUNG_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("streams", "stdout"), [(">&-", ""), ("2>&-", "1\n"), (">&- 2>&- <&-", "")]
)
def test_a_closed_stream_changes_neither_code_nor_output(
    streams: str, stdout: str, tmp_path: Path
) -> None:
    done = shell(f"{PROBE} run -- {PRINTS} {streams}", tmp_path)
    assert (done.returncode, done.stdout) == (7, stdout), done.stderr


def test_a_closed_stream_stays_closed_for_the_command(tmp_path: Path) -> None:
    is_open = f"{PROBE} run --quiet -- sh -c '[ -e /proc/self/fd/1 ]'"
    assert shell(is_open, tmp_path).returncode == 0
    assert shell(f"{is_open} >&-", tmp_path).returncode == 1


@pytest.mark.parametrize("command", ["ls --json", "completion bash", "--help"])
def test_a_full_disk_is_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = shell(f"{PROBE} {command} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "probe: cannot write to standard output: No space left on device\n"
    assert shell(f"{PROBE} {command} >&-", tmp_path).returncode == 0


def test_every_command_writes_utf_8(tmp_path: Path) -> None:
    shell(f"{PROBE} run --quiet --name épée -- true", tmp_path)
    done = shell(f"{PROBE} ls", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "épée" in done.stdout and "—" in done.stdout
