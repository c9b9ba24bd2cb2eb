"""What Slurm's accounting says of a run's job, beside what was recorded, and why they differ."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UsageError
from ..report.model import Report
from ..report.numbers import duration, energy, share

_LIMIT_S = 20.0
_FIELDS = "JobIDRaw,State,ElapsedRaw,ConsumedEnergyRaw,NodeList"
_NO_ENERGY = {"", "0", "4294967294", "18446744073709551614"}  # the last two: Slurm's "no value"
_ALIKE = 0.02  # share of the time by which start and end of a step may differ unmentioned


@dataclass(frozen=True, slots=True)
class Account:
    """A row of ``sacct``; ``energy_j`` is None where Slurm keeps none."""

    id: str
    state: str
    elapsed_s: float
    energy_j: float | None
    nodes: str


def accounts(text: str) -> list[Account]:
    """The rows of ``sacct --parsable2 --noheader``; lines of another form are left out."""
    rows = []
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) == 5 and cells[2].isdigit():
            joules = None if cells[3] in _NO_ENERGY else float(cells[3])
            rows.append(Account(cells[0], cells[1], float(cells[2]), joules, cells[4]))
    return rows


def slurm_lines(report: Report) -> list[str]:
    """Lines that hold a run against its job's account.

    Raises:
        UsageError: the run belongs to no Slurm job, or ``sacct`` does not say anything of it.
    """
    job = report.run.scheduler
    if job is None or job["scheduler"] != "slurm":
        raise UsageError(f"{report.run.id} was not recorded in a Slurm job")
    said = accounts(_sacct(job["job_id"]))
    steps = [row for row in said if row.id == f"{job['job_id']}.{job.get('step_id', '')}"]
    rows = steps or [row for row in said if row.id == job["job_id"]]
    if not rows:
        raise UsageError(f"sacct knows no job {job['job_id']}: is it another cluster's?")
    # Each start of a job that was requeued has a row.
    return _compared(report, rows[min(_restarts(job), len(rows) - 1)], is_step=bool(steps))


def _compared(report: Report, account: Account, *, is_step: bool) -> list[str]:
    what = "step" if is_step else "job"
    lines = [f"Slurm's {what} {account.id} on {account.nodes}: {account.state.lower()}"]
    ours_s, measured_j = report.run.duration_s, report.total.energy_j
    if account.energy_j is None:
        lines.append("energy: Slurm kept none (its AcctGatherEnergyType is off)")
    elif measured_j is None:
        lines.append(f"energy: Slurm counted {energy(account.energy_j)}, phasewatt measured none")
    else:
        lines.append(
            f"energy: Slurm counted {energy(account.energy_j)}, phasewatt measured "
            f"{energy(measured_j)}, {share(measured_j / account.energy_j)} of it"
        )
    lines.append(f"time: Slurm {duration(account.elapsed_s)}, the run {duration(ours_s)}")
    if account.energy_j is not None:
        lines.append(
            "Slurm counts whole nodes: what else they hold, and what other jobs on them use"
        )
    if account.elapsed_s > ours_s * (1 + _ALIKE):
        lines.append(
            f"Slurm counts {duration(account.elapsed_s - ours_s)} more: before the run's begin, "
            "after its end"
        )
    return lines


def _restarts(job: Mapping[str, str]) -> int:
    text = job.get("restarts", "")
    return int(text) if text.isdigit() else 0


def _sacct(job_id: str) -> str:
    if not job_id.isdigit():
        raise UsageError(f"{job_id!r} is no number of a Slurm job")
    command = ["sacct", "-j", job_id, "--duplicates", "--parsable2", "--noheader"]
    try:
        done = subprocess.run(
            [*command, f"--format={_FIELDS}"],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(
            "there is no sacct here: --slurm works on a machine of the cluster"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"sacct: {error}") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(f"sacct: {reason}")
    return done.stdout
