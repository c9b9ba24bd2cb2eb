"""What is known of each training below one `probe run`, while it goes on and when it has ended.

Every training's run.json is made by its first process; from then on the recorder is its writer.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from ..model import RunStatus
from ..redact import redact_text
from ..store import files, layout
from ..store.members import Member
from ..store.run_fields import ProcessFields, RunFields, chosen
from ..store.trainings import numbers
from .drain import RingDrain
from .job_end import Ends, EndsOf, Outcome, has_ended, outcome_of, starts_again

STATUS_NS = 5_000_000_000
# Of what a process says: all warnings are in one list already; how it left is not the run's.
_OF_PROCESS = ("warnings", "left", "ended_by_parent", "hang", "settings")


def steps(drains: Iterable[RingDrain]) -> int:
    """Steps of all trainings, each counted by its furthest rank."""
    furthest: dict[int, int] = {}
    for drain in drains:
        training = drain.rank // layout.SEATS
        furthest[training] = max(furthest.get(training, 0), drain.steps)
    return sum(furthest.values())


def of_run(info: ProcessFields) -> RunFields:
    """What of a process is its run's: what is known, without what is this process's alone."""
    filled = [name for name, value in info.items() if value not in (None, "", "unknown")]
    fields = cast("RunFields", info)
    return chosen(fields, [name for name in filled if name not in _OF_PROCESS])


def config_with(value: RunFields, info: ProcessFields) -> RunFields:
    """The run's ``config`` with what a process has added to it; nothing if it added nothing."""
    settings = info.get("settings")
    if not isinstance(settings, Mapping) or not settings:
        return {}
    return {"config": {**(value.get("config") or {}), **settings}}


_REPLACED = "its process replaced itself by another program"


class TrainingFiles:
    """Keeps the run.json of each training current; does nothing where there is no `probe run`."""

    def __init__(self, run: Path):
        self._run = run
        self._ended: set[int] = set()
        self._written_ns: dict[int, int] = {}  # of those that go on
        self._images: dict[tuple[str, int, int], list[Member]] = {}

    def update(self, ends: EndsOf, drains: Mapping[Path, RingDrain], now_ns: int) -> None:
        """Write how each stands, and how those ended that did since. Raises OSError."""
        self._images = _images(ends.members.values())
        for number, own in self._open(ends):
            if all(has_ended(m, own, drains) for m in own.members.values()) and not starts_again(
                list(own.members.values()), drains
            ):
                outcome = self._outcome(own, drains, now_ns)
                if _died_with_parent(own, outcome, drains):
                    continue  # how the command ends will tell
                self._write(number, own, drains, now_ns, outcome)
            elif now_ns - self._written_ns.get(number, 0) > STATUS_NS:
                self._written_ns[number] = now_ns
                self._write(number, own, drains, now_ns)

    def finalise(
        self, ends: EndsOf, drains: Mapping[Path, RingDrain], now_ns: int, command: Outcome
    ) -> RunFields:
        """Write how the last ones ended, and the energy of each. Raises OSError.

        Args:
            command: how the command ended.

        Returns:
            Fields of the group's run.json; none if it is no group.
        """
        self._images = _images(ends.members.values())
        for number, own in self._open(ends):
            outcome = self._outcome(own, drains, now_ns)
            if _died_with_parent(own, outcome, drains) and command.status is RunStatus.FINISHED:
                outcome = dataclasses.replace(
                    outcome, status=RunStatus.FINISHED, exit_code=None, ended_by=""
                )
            self._write(number, own, drains, now_ns, outcome)
        if len(numbers(self._run)) < 2:
            return {}
        from ..analysis.group import glance_at_group

        glance = glance_at_group(self._run)
        for number, fields in glance.trainings.items():
            path = layout.training_dir(self._run, number) / layout.RUN_FILE
            if value := files.read_fields(path):
                files.write_json(path, value | fields, checked=True)
        paths = [layout.training_dir(self._run, n) / layout.RUN_FILE for n in numbers(self._run)]
        counted = [int((files.read_fields(path) or {}).get("steps") or 0) for path in paths]
        return glance.of_group | {"trainings": len(counted), "steps": sum(counted)}

    def _open(self, ends: EndsOf) -> list[tuple[int, Ends]]:
        """The trainings that have not ended, with their processes."""
        if not any(m.role == "launcher" for m in ends.members.values()):
            return []
        own: dict[int, dict[str, Member]] = {}
        for name, member in ends.members.items():
            if member.role == "rank" and member.training not in self._ended:
                own.setdefault(member.training, {})[name] = member
        return [(number, Ends(members, ends.gone)) for number, members in sorted(own.items())]

    def _outcome(self, own: Ends, drains: Mapping[Path, RingDrain], now_ns: int) -> Outcome:
        outcome = _outcome(own, drains, now_ns)
        replaced = all(self._images.get(_process(m), [m])[-1] != m for m in own.members.values())
        if outcome.status is RunStatus.KILLED and outcome.exit_code is None and replaced:
            return dataclasses.replace(outcome, status=RunStatus.FINISHED, ended_by=_REPLACED)
        return outcome

    def _began_ns(self, member: Member) -> int:
        """Its process's begin, unless another program ran in that process before."""
        first = self._images.get(_process(member), [member])[0]
        return member.begin_ns if first != member else _began_ns(member)

    def _write(
        self,
        number: int,
        own: Ends,
        drains: Mapping[Path, RingDrain],
        now_ns: int,
        outcome: Outcome | None = None,
    ) -> None:
        path = layout.training_dir(self._run, number) / layout.RUN_FILE
        value = files.read_fields(path)
        if value is None:
            return  # the directory has vanished: it is not made again
        if value.get("status") != RunStatus.RUNNING:
            self._ended.add(number)  # by the recorder before this one
            return
        rings = [drain for drain in drains.values() if drain.rank // layout.SEATS == number - 1]
        rings = [drain for drain in rings if drain.rank >= 0]
        warnings: list[str] = []
        for member in own.members.values():
            warnings += member.info.get("warnings") or ()
            value |= of_run(member.info)
            value |= config_with(value, member.info)
        value |= {
            "begin_ns": min(self._began_ns(m) for m in own.members.values()),
            "ranks": len({m.rank for m in own.members.values()}),
            "steps": max((d.steps for d in rings), default=0),
            "edges": sum(d.edges for d in rings),
            "edges_lost": sum(d.lost for d in rings),
            "warnings": list(dict.fromkeys(map(redact_text, warnings))),
            "alive_ns": now_ns,
        }
        if outcome is not None:
            value |= {
                "status": outcome.status,
                "end_ns": outcome.end_ns,
                "duration_s": (outcome.end_ns - value["begin_ns"]) / 1e9,
                "exit_code": outcome.exit_code,
                "ended_by": redact_text(outcome.ended_by),
            }
            self._ended.add(number)
        files.write_json(path, value, sync=outcome is not None, checked=True)


def _process(member: Member) -> tuple[str, int, int]:
    return member.host, member.pid, member.start_ticks


def _images(members: Iterable[Member]) -> dict[tuple[str, int, int], list[Member]]:
    """The trainings of each process in order: each has replaced the one before by `exec`."""
    images: dict[tuple[str, int, int], list[Member]] = {}
    for member in sorted(members, key=lambda m: m.begin_ns):
        if member.role == "rank":
            images.setdefault(_process(member), []).append(member)
    return images


def _began_ns(member: Member) -> int:
    """When a process began: its start-up is its training's, too.

    Its start is known to a tick of the kernel. The latest instant is taken, so that it never lies
    before the end of a process that it followed.
    """
    to_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    began_ns = (member.start_ticks + 1) * tick_ns - to_boot_ns
    return min(member.begin_ns, began_ns) if began_ns > 0 else member.begin_ns


def _outcome(own: Ends, drains: Mapping[Path, RingDrain], now_ns: int) -> Outcome:
    """How a training ended. One that died ended with its last edge: later nothing is known."""
    outcome = outcome_of(drains, own, now_ns)
    rings = {
        name: [d for path, d in drains.items() if path.name.startswith(m.prefix)]
        for name, m in own.members.items()
    }
    known_ns = [d.ended[0] if d.ended else d.last_ns for ds in rings.values() for d in ds]
    begin_ns = max(m.begin_ns for m in own.members.values())
    ended_by = outcome.ended_by
    if len({m.rank for m in own.members.values()}) == 1:  # it has no ranks to tell apart
        ended_by = re.sub(r"\Arank \d+", "the process", ended_by)
    return dataclasses.replace(outcome, end_ns=max([begin_ns + 1, *known_ns]), ended_by=ended_by)


def _died_with_parent(own: Ends, outcome: Outcome, drains: Mapping[Path, RingDrain]) -> bool:
    """Whether it is a worker that its pool or parent terminates at the end, as nobody else did."""
    if outcome.status is not RunStatus.KILLED or outcome.exit_code is not None:
        return False
    return all(
        m.info.get("ended_by_parent")
        for name, m in own.members.items()
        if not any(d.ended for path, d in drains.items() if path.name.startswith(m.prefix))
    )
