"""Commands in which little happens: their reports come at once and say what was seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import processes


def test_a_command_of_no_time_has_its_report_at_once(tmp_path: Path) -> None:
    done = processes.probe(tmp_path, "run", "--", "true")
    assert done.returncode == 0
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("no PyTorch training was seen in this command: torch was not")
    assert "true · finished" in done.stderr
    run = processes.only_run(tmp_path)
    assert processes.sealed(run)
    assert not list(Path("/dev/shm").glob(f"phasewatt-*{run.name}*"))
    again = processes.probe(tmp_path, "report", "latest", "--format", "json")
    assert again.returncode == 0, again.stderr
    value = json.loads(again.stdout)
    assert value["schema"] == 1
    assert value["run"]["status"] == "finished"
    assert value["total"]["energy_j"] is None
    (row,) = value["phases"]
    assert row["time_s"] == value["run"]["duration_s"]
    assert value["warnings"][0] == value["run"]["note"] == lines[0]


@pytest.mark.parametrize(("code", "status"), [("exit 3", "failed"), ("kill -9 $$", "killed")])
def test_how_a_short_command_ended(code: str, status: str, tmp_path: Path) -> None:
    processes.probe(tmp_path, "run", "--quiet", "--", "sh", "-c", code)
    value = json.loads(processes.probe(tmp_path, "report", "--format", "json").stdout)
    assert value["run"]["status"] == status


def test_torch_without_a_training(tmp_path: Path) -> None:
    done = processes.probe(tmp_path, "run", "--", sys.executable, "-c", "import torch")
    first = " ".join(done.stderr.split()).partition(" · ")[0]
    assert "torch was imported, but no optimizer" in first


def test_an_exception_of_the_only_training_is_in_its_report(tmp_path: Path) -> None:
    script = processes.write(
        tmp_path / "fails.py",
        """
        import torch
        torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
        raise RuntimeError("no such column: api_key=sk-abcdefghijklmnopqrstuvwxyz0123456789")
        """,
    )
    done = processes.probe(tmp_path, "run", "--", sys.executable, str(script))
    assert done.returncode == 1
    run = processes.only_run(tmp_path)
    assert processes.wait_until(lambda: processes.sealed(run))
    ended_by = json.loads((run / "run.json").read_text())["ended_by"]
    assert "exit code 1: RuntimeError: no such column" in ended_by
    assert "sk-abc" not in ended_by


def test_what_the_report_needs_is_imported_while_the_command_runs() -> None:
    code = (
        "import sys, time\n"
        "from probe.launcher import closing\n"
        "closing.import_early()\n"
        "end = time.monotonic() + 300\n"
        "while 'probe.report.formats.text' not in sys.modules and time.monotonic() < end:\n"
        "    time.sleep(0.02)\n"
        "assert 'probe.report.build.report' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
