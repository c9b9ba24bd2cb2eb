"""run.json while the run lives and when it has ended, and the rollups."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..model import RunStatus
from ..ring.layout import EndCode
from ..store import files, layout
from ..store.members import Member
from ..store.processes import cpu_seconds, start_ticks
from .attributing import Attributing
from .drain import RingDrain
from .machine import machine
from .samples import SampleStore
from .sensing import Sensing
from .watching import MemberWatch

_SEVERITY = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.KILLED)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """When and how the run, or one of its processes, ended; ``ended_by`` in words."""

    end_ns: int
    status: RunStatus
    exit_code: int | None
    ended_by: str


class Finale:
    """Keeps run.json current; the only writer of it after the run was created."""

    def __init__(
        self, run: Path, epoch: int, attributing: Attributing, problems: Callable[[], list[str]]
    ):
        """``problems``: what others than sensors and attribution have to complain about."""
        self._run, self._epoch, self._attributing = run, epoch, attributing
        self.problems = problems
        self._machine = machine()
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
                *sensing.warnings(), *self._attributing.warnings, *self.problems(),
                *_said_by(members),
            ]),
            "carbon": sensing.carbon or None,
            "carbon_problem": sensing.carbon_problem or None,
            "machine": self._machine,
            "alive_ns": time.monotonic_ns(),
            "recorder": {
                "pid": os.getpid(), "start_ticks": start_ticks(os.getpid()) or 0,
                "epoch": self._epoch, "cpu_s": round(cpu_seconds(), 3),
                "wall_s": round(time.monotonic() - self._began, 3),
            },
        }
        for member in ranks or members:
            for key, told in member.info.items():
                # Warnings stand among everybody's already.
                if key != "warnings" and told not in (None, "", "unknown"):
                    value[key] = told
        value |= final
        files.write_json(self._run / layout.RUN_FILE, value, sync=bool(final))

    def finalise(
        self, sensing: Sensing, samples: SampleStore, drains: Mapping[Path, RingDrain],
        watch: MemberWatch, outcome: Outcome,
    ) -> None:
        """Say how the run ended. Raises OSError."""
        end_ns = outcome.end_ns
        value = files.read_json(self._run / layout.RUN_FILE) or {}
        begin = int(value.get("begin_ns", end_ns))
        self.write_status(
            sensing, samples, drains.values(), watch.members.values(),
            status=outcome.status, end_ns=end_ns, duration_s=(end_ns - begin) / 1e9,
            exit_code=outcome.exit_code, ended_by=outcome.ended_by,
        )
        self._write_glance()

    def _write_glance(self) -> None:
        """Keep it in run.json, so that a list of runs need not read their samples."""
        from ..account.build import glance

        found = glance(self._run)
        if found is not None:
            value = files.read_json(self._run / layout.RUN_FILE) or {}
            files.write_json(self._run / layout.RUN_FILE, value | found)


def outcome_of(
    drains: Mapping[Path, RingDrain], watch: MemberWatch, detected_ns: int
) -> Outcome:
    """How the run ended; a launcher knows best, then the worst rank counts."""
    outcomes = []
    for member in watch.members.values():
        ended = next(
            (d.ended for p, d in drains.items() if p.name.startswith(member.prefix) and d.ended),
            None,
        )
        outcome = _outcome(member, ended, detected_ns)
        if member.role == "launcher" and ended is not None:
            return outcome
        outcomes.append(outcome)
    if not outcomes:
        return Outcome(detected_ns, RunStatus.KILLED, None, "no process of the job was seen")
    return max(outcomes, key=lambda o: (_SEVERITY.index(o.status), o.end_ns))


def _outcome(
    member: Member, ended: tuple[int, int, int] | None, detected_ns: int
) -> Outcome:
    """Of one process."""
    who = "the command" if member.role == "launcher" else f"rank {member.rank}"
    if ended is None:
        return Outcome(detected_ns, RunStatus.KILLED, None,
                       f"{who} died without leaving the watched block")
    end_ns, end, code = ended
    if end == EndCode.FINISHED:
        return Outcome(end_ns, RunStatus.FINISHED, 0, "")
    if code < 0:
        return Outcome(end_ns, RunStatus.KILLED, code, f"{who} was ended by signal {-code}")
    error = member.info.get("error")
    why = f": {error}" if error else f" with exit code {code}"
    return Outcome(end_ns, RunStatus.FAILED, code, f"{who} failed{why}")


def _said_by(members: Iterable[Member]) -> list[str]:
    return [line for m in members for line in m.info.get("warnings") or ()]


def _unique(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))
