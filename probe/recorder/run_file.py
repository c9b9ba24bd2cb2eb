"""run.json, or a guest host's own file, while the run lives and when it has ended."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import Clock
from ..model import RunStatus
from ..redact import redact_text
from ..store import files, layout
from ..store.members import Member
from ..store.node_files import accelerators
from ..store.processes import cpu_seconds, start_ticks
from ..store.run_fields import RunFields, chosen
from ..store.runs import status_file
from .drain import RingDrain
from .job_end import Outcome
from .machine_info import machine
from .manifest import Manifest
from .sensors.node_sensors import NodeSensors
from .trainings import config_with, of_run, steps

if TYPE_CHECKING:
    from ..report.model import JsonValue

_OF_AN_END = ("end_ns", "duration_s", "exit_code", "ended_by", "total", "logged", "power")
# To wait for the manifest while the training waits for the recorder's end, and when it does not.
_MANIFEST_S, _LATE_MANIFEST_S = 0.5, 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class NodeState:
    """What the recorder of this node knows now."""

    sensors: NodeSensors
    sources: Sequence[Mapping[str, JsonValue]]  # all so far, as in sources.json
    drains: Sequence[RingDrain]
    members: Sequence[Member]
    problems: Sequence[str]  # warnings of others than sensors and members


class RunFile:
    """Keeps the file of this host current; its only writer after it was created."""

    def __init__(self, run: Path, epoch: int, clock: Clock):
        self._run, self._epoch, self._clock = run, epoch, clock
        self._file = status_file(run)
        self._machine = machine()
        self._manifest: Manifest | None = None  # begins with the first member
        self._written: RunFields = {}  # should it be damaged later
        self._began_s, self._start_cpu_s = clock.monotonic_s(), cpu_seconds()

    def reopen(self) -> None:
        """The run had ended and goes on: another attempt has begun. Raises OSError."""
        value = files.read_fields(self._file) or {}
        if value.get("status") != RunStatus.RUNNING:
            kept = chosen(value, [name for name in value if name not in _OF_AN_END])
            kept["status"] = RunStatus.RUNNING
            files.write_json(self._file, kept, checked=True)

    def write_status(self, state: NodeState, end: RunFields | None = None) -> None:
        """Refresh it; ``end``: how a run has ended. Raises OSError."""
        sensors, drains, members = state.sensors, state.drains, state.members
        value = files.read_fields(self._file) or self._written.copy()
        ranks = [m for m in members if m.role == "rank"]
        if self._manifest is None and members:
            self._manifest = Manifest((ranks or list(members))[0].pid)
        warnings = [*sensors.warnings(), *state.problems]
        for member in members:
            warnings += member.info.get("warnings") or ()
        value |= {
            "ranks": len({m.seat for m in ranks}) or 1,
            "steps": steps(drains),
            "edges": sum(d.edges for d in drains),
            "edges_lost": sum(d.lost for d in drains),
            "rings": [str(d.path) for d in drains],
            "sources": len(state.sources),
            "accelerators": accelerators(state.sources),
            "absent": [dataclasses.asdict(a) for a in sensors.absences()],
            "warnings": list(dict.fromkeys(map(redact_text, warnings))),
            "carbon": sensors.carbon.row or None,
            "carbon_problem": redact_text(sensors.carbon.problem) or None,
            "machine": self._machine,
            **(self._manifest.gathered() if self._manifest else {}),
            "alive_ns": self._clock.now_ns(),
            "recorder": {
                "pid": os.getpid(),
                "start_ticks": start_ticks(os.getpid()) or 0,
                "epoch": self._epoch,
                "cpu_s": round(cpu_seconds(), 3),
                "start_cpu_s": round(self._start_cpu_s, 3),
                "wall_s": round(self._clock.monotonic_s() - self._began_s, 3),
            },
        }
        for member in ranks or members:
            value |= of_run(member.info)
            value |= config_with(value, member.info)
        if end is not None:
            value |= end
        files.write_json(self._file, value, sync=end is not None, checked=True)
        self._written = value

    def finalise(
        self, state: NodeState, outcome: Outcome, trainings: Callable[[], RunFields]
    ) -> None:
        """Write how the run ended, and its totals. Raises OSError.

        Args:
            trainings: finalises those below it; its fields are the run's, too.
        """
        from ..analysis.open import glance

        if self._manifest is not None:
            self._manifest.gathered(_MANIFEST_S)
        value = files.read_fields(self._file) or {}
        begin_ns = int(value.get("begin_ns", outcome.end_ns))
        self.write_status(
            state,
            {
                "status": outcome.status,
                "end_ns": outcome.end_ns,
                "duration_s": (outcome.end_ns - begin_ns) / 1e9,
                "exit_code": outcome.exit_code,
                "ended_by": redact_text(outcome.ended_by),
            },
        )
        # Totals are kept in run.json, so that a list of runs need not read their samples.
        totals = (glance(self._run, layout.node_name()) or {}) | trainings()
        if totals:
            value = (files.read_fields(self._file) or {}) | totals
            files.write_json(self._file, value, checked=True)

    def add_manifest(self) -> None:
        """Write what of the manifest was not gathered when the run ended. Raises OSError."""
        if self._manifest is None:
            return
        gathered = self._manifest.gathered(_LATE_MANIFEST_S)
        value = files.read_fields(self._file)
        if value is not None and value | gathered != value:
            files.write_json(self._file, value | gathered, checked=True)
