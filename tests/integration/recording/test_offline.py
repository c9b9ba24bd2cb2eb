"""A run makes no network connection: it works where there is no network, and asks for none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.processes import PLAIN, only_run


def test_a_run_works_where_there_is_no_interface_at_all(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: unshare --net")
    result = processes.run(PLAIN, tmp_path, "2.5", prefix=["unshare", "--net"])
    if "unshare" in result.stderr:
        pytest.skip(result.stderr)
    assert result.returncode == 0, result.stderr
    out = processes.probe(tmp_path, "report", str(only_run(tmp_path)))
    assert out.returncode == 0, out.stderr
    assert "CO2e" in out.stdout  # the carbon intensity needs no network either


def test_no_process_of_a_run_opens_a_network_socket(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: apt-get install strace")
    log = tmp_path / "trace"
    result = processes.run(
        PLAIN,
        tmp_path,
        "2.5",
        prefix=[strace, "-f", "-qq", "-e", "trace=socket,connect", "-o", str(log)],
        timeout=processes.HUNG_S,
    )
    if "ptrace" in result.stderr:
        pytest.skip(result.stderr)
    assert result.returncode == 0, result.stderr
    assert sys.executable
    asked = [line for line in log.read_text().splitlines() if "AF_INET" in line]
    assert asked == []
