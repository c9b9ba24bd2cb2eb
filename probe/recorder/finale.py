"""run.json while the run lives and when it has ended, and the rollups."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..model import RunStatus
from ..ring.layout import EndCode
from ..store import files, layout
from ..store.members import Member
from ..store.processes import cpu_seconds, start_ticks
from .attributing import Attributing
from .drain import RingDrain
from .samples import SampleStore
from .sensing import Sensing
from .watching import MemberWatch

# Reading more samples than this to sum them up would not be constant memory.
_TOTAL_ROWS = 1_000_000


class Finale:
    """Keeps run.json current; the only writer of it after the run was created."""

    def __init__(self, run: Path, epoch: int, attributing: Attributing):
        self._run, self._epoch, self._attributing = run, epoch, attributing
        self._began = time.monotonic()

    def write_status(
        self, sensing: Sensing, samples: SampleStore, drains: Iterable[RingDrain],
        members: Iterable[Member], **final: Any,
    ) -> None:
        """Refresh run.json. Raises OSError."""
        drains, members = list(drains), list(members)
        value = files.read_json(self._run / layout.RUN_FILE) or {}
        ranks = [m for m in members if m.role == "rank"]
        value |= {
            "ranks": len({m.rank for m in ranks}) or 1,
            "steps": max((d.steps for d in drains), default=0),
            "edges": sum(d.edges for d in drains),
            "edges_lost": sum(d.lost for d in drains),
            "rings": [str(d.path) for d in drains],
            "sources": len(samples.sources()),
            "absent": [dataclasses.asdict(a) for a in sensing.absences()],
            "warnings": _unique([
                *sensing.warnings(), *self._attributing.warnings, *_said_by(members)
            ]),
            "carbon": sensing.carbon or None,
            "carbon_problem": sensing.carbon_problem or None,
            "alive_ns": time.monotonic_ns(),
            "recorder": {
                "pid": os.getpid(), "start_ticks": start_ticks(os.getpid()) or 0,
                "epoch": self._epoch, "cpu_s": round(cpu_seconds(), 3),
                "wall_s": round(time.monotonic() - self._began, 3),
            },
        }
        for member in ranks or members:
            for key, told in member.info.items():
                if told not in (None, "", "unknown"):
                    value[key] = told
        value |= final
        files.write_json(self._run / layout.RUN_FILE, value, sync=bool(final))

    def finalise(
        self, sensing: Sensing, samples: SampleStore, drains: Mapping[Path, RingDrain],
        watch: MemberWatch, detected_ns: int,
    ) -> None:
        """Say how the run ended. Raises OSError."""
        status, end_ns, code, how = _outcome(drains, watch, detected_ns)
        value = files.read_json(self._run / layout.RUN_FILE) or {}
        begin = int(value.get("begin_ns", end_ns))
        self.write_status(
            sensing, samples, drains.values(), watch.members.values(),
            status=status, end_ns=end_ns, duration_s=(end_ns - begin) / 1e9,
            exit_code=code, ended_by=how,
        )
        if samples.rows <= _TOTAL_ROWS:
            self._write_total()

    def _write_total(self) -> None:
        """Keep the total in run.json, so that `probe ls` need not read the samples."""
        from ..account.build import total

        value = files.read_json(self._run / layout.RUN_FILE) or {}
        files.write_json(self._run / layout.RUN_FILE, value | {"total": total(self._run)})


def _outcome(
    drains: Mapping[Path, RingDrain], watch: MemberWatch, detected_ns: int
) -> tuple[RunStatus, int, int | None, str]:
    """(status, end, exit code, in words); a launcher knows best, then the worst rank counts."""
    verdicts: list[tuple[int, int, RunStatus, int | None, str]] = []
    for member in watch.members.values():
        ended = next(
            (d.ended for p, d in drains.items() if p.name.startswith(member.prefix) and d.ended),
            None,
        )
        verdict = _verdict(member, ended, detected_ns)
        if member.role == "launcher" and ended is not None:
            verdicts = [verdict]
            break
        verdicts.append(verdict)
    if not verdicts:
        return RunStatus.KILLED, detected_ns, None, "no process of the job was seen"
    _, end_ns, status, code, how = max(verdicts, key=lambda v: v[:2])
    return status, end_ns, code, how


def _verdict(
    member: Member, ended: tuple[int, int, int] | None, detected_ns: int
) -> tuple[int, int, RunStatus, int | None, str]:
    """(severity, end, status, exit code, in words) of one process."""
    who = "the command" if member.role == "launcher" else f"rank {member.rank}"
    if ended is None:
        return (2, detected_ns, RunStatus.KILLED, None,
                f"{who} died without leaving the watched block")
    end_ns, end, code = ended
    if end == EndCode.FINISHED:
        return 0, end_ns, RunStatus.FINISHED, 0, ""
    if code < 0:
        return 2, end_ns, RunStatus.KILLED, code, f"{who} was ended by signal {-code}"
    return 1, end_ns, RunStatus.FAILED, code, f"{who} failed with exit code {code}"


def _said_by(members: Iterable[Member]) -> list[str]:
    return [line for m in members for line in m.info.get("warnings") or ()]


def _unique(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))
