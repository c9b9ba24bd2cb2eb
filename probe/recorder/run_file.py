"""run.json, or a guest host's own file, while the run lives and when it has ended."""

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
from ..store.runs import status_file
from .drain import RingDrain
from .machine_info import machine
from .members import MemberWatch
from .pipeline.attribution import Attributing
from .pipeline.storage import SampleStore
from .sensor_threads import Sensing

_OF_AN_END = ("end_ns", "duration_s", "exit_code", "ended_by", "total", "logged", "power")
NOTICED_NS = 100_000_000  # a death is noticed so much later than what it does to the others


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """When and how the run, or one of its processes, ended; ``ended_by`` in words."""

    end_ns: int
    status: RunStatus
    exit_code: int | None
    ended_by: str


class Finale:
    """Keeps the file of this host current; its only writer after it was created."""

    def __init__(
        self, run: Path, epoch: int, attributing: Attributing, problems: Callable[[], list[str]]
    ):
        """``problems``: what others than sensors and attribution have to complain about."""
        self._run, self._epoch, self._attributing = run, epoch, attributing
        self._file = status_file(run)
        self.problems = problems
        self._machine = machine()
        self._began = time.monotonic()

    def reopen(self) -> None:
        """The run had ended and goes on: another attempt has begun. Raises OSError."""
        value = files.read_json(self._file) or {}
        if value.get("status") != RunStatus.RUNNING:
            kept = {key: told for key, told in value.items() if key not in _OF_AN_END}
            files.write_json(self._file, kept | {"status": RunStatus.RUNNING})

    def write_status(
        self,
        sensing: Sensing,
        samples: SampleStore,
        drains: Iterable[RingDrain],
        members: Iterable[Member],
        **final: Any,
    ) -> None:
        """Refresh it. Raises OSError."""
        drains, members = list(drains), list(members)
        value = files.read_json(self._file) or {}
        ranks = [m for m in members if m.role == "rank"]
        value |= {
            "ranks": len({m.rank for m in ranks}) or 1,
            "steps": max((d.steps for d in drains), default=0),
            "edges": sum(d.edges for d in drains),
            "edges_lost": sum(d.lost for d in drains),
            "rings": [str(d.path) for d in drains],
            "sources": len(samples.sources()),
            "absent": [dataclasses.asdict(a) for a in sensing.absences()],
            "warnings": _unique(
                [
                    *sensing.warnings(),
                    *self._attributing.warnings,
                    *self.problems(),
                    *_said_by(members),
                ]
            ),
            "carbon": sensing.carbon or None,
            "carbon_problem": sensing.carbon_problem or None,
            "machine": self._machine,
            "alive_ns": time.monotonic_ns(),
            "recorder": {
                "pid": os.getpid(),
                "start_ticks": start_ticks(os.getpid()) or 0,
                "epoch": self._epoch,
                "cpu_s": round(cpu_seconds(), 3),
                "wall_s": round(time.monotonic() - self._began, 3),
            },
        }
        for member in ranks or members:
            for key, told in member.info.items():
                # Warnings stand among everybody's already; how each left is its own.
                if key not in ("warnings", "left") and told not in (None, "", "unknown"):
                    value[key] = told
        value |= final
        files.write_json(self._file, value, sync=bool(final))

    def finalise(
        self,
        sensing: Sensing,
        samples: SampleStore,
        drains: Mapping[Path, RingDrain],
        watch: MemberWatch,
        outcome: Outcome,
    ) -> None:
        """Say how the run ended. Raises OSError."""
        end_ns = outcome.end_ns
        value = files.read_json(self._file) or {}
        begin = int(value.get("begin_ns", end_ns))
        self.write_status(
            sensing,
            samples,
            drains.values(),
            watch.members.values(),
            status=outcome.status,
            end_ns=end_ns,
            duration_s=(end_ns - begin) / 1e9,
            exit_code=outcome.exit_code,
            ended_by=outcome.ended_by,
        )
        self._write_glance()

    def _write_glance(self) -> None:
        """Keep it in run.json, so that a list of runs need not read their samples."""
        from ..analysis.open import glance

        found = glance(self._run, layout.node_name())
        if found is not None:
            value = files.read_json(self._file) or {}
            files.write_json(self._file, value | found)


def outcome_of(drains: Mapping[Path, RingDrain], watch: MemberWatch, detected_ns: int) -> Outcome:
    """How the run ended: a launcher knows best, then the rank of the last attempt that went first.

    When one rank fails or dies, the others fail in a collective or their launcher ends them.
    """
    outcomes: list[Outcome] = []
    first: list[tuple[int, int, int, Outcome]] = []
    for member in last_attempt(watch.members.values()):
        mine = [drain for path, drain in drains.items() if path.name.startswith(member.prefix)]
        ended = next((drain.ended for drain in mine if drain.ended), None)
        outcome = _outcome(member, ended, detected_ns)
        if member.role == "launcher" and ended is not None:
            return outcome
        outcomes.append(outcome)
        if outcome.status is not RunStatus.FINISHED:
            # Dead in the same moment: the longest silent one.
            heard_ns = max((drain.last_ns for drain in mine), default=0)
            went_ns = (
                outcome.end_ns
                if ended
                else watch.gone.get(member.file_name, detected_ns) - NOTICED_NS
            )
            first.append((went_ns, heard_ns, len(first), outcome))
    if not outcomes:
        return Outcome(detected_ns, RunStatus.KILLED, None, "no process of the job was seen")
    cause = min(first)[-1] if first else outcomes[0]
    return dataclasses.replace(cause, end_ns=max(outcome.end_ns for outcome in outcomes))


def last_attempt(members: Iterable[Member]) -> list[Member]:
    """Ranks as they were started last, and launchers."""
    members = list(members)
    ranks = [m for m in members if m.role == "rank"]
    last = max((m.attempt for m in ranks), default=0)
    latest = {
        m.local_rank if m.local_world_size > 1 else m.file_name: m
        for m in sorted(ranks, key=lambda m: m.begin_ns)
        if m.attempt == last
    }
    return [*latest.values(), *(m for m in members if m.role != "rank")]


def _outcome(member: Member, ended: tuple[int, int, int] | None, detected_ns: int) -> Outcome:
    """Of one process."""
    who = "the command" if member.role == "launcher" else f"rank {member.rank}"
    if ended is None:
        return Outcome(
            detected_ns, RunStatus.KILLED, None, f"{who} died without leaving the watched block"
        )
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
