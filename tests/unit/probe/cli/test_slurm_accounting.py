"""A run beside what ``sacct`` says of its job: rows as Slurm 23.11 prints them with --parsable2."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from probe.cli.main import main
from probe.cli.slurm_accounting import accounts, slurm_lines
from probe.errors import UsageError
from probe.report.model import Report
from tests.fakes.reports import full_report
from tests.fakes.stored_run import counter, energy_source, stored_run

JOB = {"scheduler": "slurm", "job_id": "77", "step_id": "0"}
ROWS = """\
77|COMPLETED|135|2094000|n[1-2]
77.batch|COMPLETED|135|2067000|n1
77.extern|COMPLETED|135|2094000|n[1-2]
77.0|COMPLETED|125|2000000|n[1-2]
"""


@pytest.fixture
def sacct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put what it says, or how it fails, into this script."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "sacct"


def says(script: Path, text: str, code: int = 0) -> None:
    script.with_name("asked").unlink(missing_ok=True)
    script.write_text(
        f'#!/bin/sh\necho "$*" >{script.with_name("asked")}\ncat <<"END"\n{text}END\nexit {code}\n'
    )
    script.chmod(0o755)


def of_job(energy_j: float | None = 1_500_000.0, seconds: float = 120.0, **job: str) -> Report:
    report = full_report()
    return replace(
        report,
        run=replace(report.run, scheduler=JOB | job, duration_s=seconds),
        total=replace(report.total, energy_j=energy_j),
    )


def test_the_step_of_the_run_is_compared(sacct: Path) -> None:
    says(sacct, ROWS)
    lines = slurm_lines(of_job())
    assert "-j 77 " in sacct.with_name("asked").read_text()
    assert lines[0] == "Slurm's step 77.0 on n[1-2]: completed"
    assert lines[1] == "energy: Slurm counted 2000 kJ, phasewatt measured 1500 kJ, 75.0 % of it"
    assert lines[2] == "time: Slurm 2 min 05 s, the run 2 min 00 s"
    assert "whole nodes" in lines[3] and lines[4].startswith("Slurm counts 5.00 s more")


def test_each_start_of_a_requeued_job_has_its_row(sacct: Path) -> None:
    says(sacct, "77.0|PREEMPTED|50|700000|n1\n77.0|COMPLETED|120|900000|n2\n")
    assert "700 kJ" in slurm_lines(of_job())[1]
    assert "900 kJ" in slurm_lines(of_job(restarts="1"))[1]


@pytest.mark.parametrize("none", ["", "0", "4294967294", "18446744073709551614"])
def test_without_an_energy_plugin(sacct: Path, none: str) -> None:
    says(sacct, f"77|COMPLETED|120|{none}|n1\n")
    lines = slurm_lines(of_job())
    assert lines[0].startswith("Slurm's job 77") and "kept none" in lines[1]
    assert not any("whole nodes" in line for line in lines)


def test_a_run_without_a_meter(sacct: Path) -> None:
    says(sacct, ROWS)
    assert "phasewatt measured none" in slurm_lines(of_job(energy_j=None))[1]


def test_the_command_prints_the_comparison(
    sacct: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    says(sacct, ROWS)
    samples = counter(10**12, 5.0, 100.0)
    run = stored_run(tmp_path / "runs", [(energy_source(0), samples)], 5.0, scheduler=JOB)
    with pytest.raises(SystemExit) as ended:
        main(["report", str(run), "--slurm"])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("Slurm's step 77.0 on n[1-2]: completed")
    with pytest.raises(SystemExit):
        main(["report", str(run), "--slurm", "--format", "json"])
    assert "leave --format out" in capsys.readouterr().err


def test_what_cannot_be_compared_is_one_line(
    sacct: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="not recorded in a Slurm job"):
        slurm_lines(full_report())
    with pytest.raises(UsageError, match="no number"):
        slurm_lines(of_job(job_id="77; reboot"))
    says(sacct, "")
    with pytest.raises(UsageError, match="knows no job 77"):
        slurm_lines(of_job())
    says(sacct, "Slurm accounting storage is disabled\n", code=1)
    with pytest.raises(UsageError, match="sacct"):
        slurm_lines(of_job())
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="no sacct here"):
        slurm_lines(of_job())


def test_lines_of_another_form_are_left_out() -> None:
    assert [row.id for row in accounts("nonsense\na|b\n" + ROWS)] == [
        "77",
        "77.batch",
        "77.extern",
        "77.0",
    ]
