"""When the job on this node has ended, and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..model import RunStatus
from ..ring.layout import EndCode
from ..store.members import Member
from .members import MemberWatch

if TYPE_CHECKING:
    from .drain import RingDrain

NOTICED_NS = 100_000_000  # a death is noticed so much later than what it does to the others


class EndsOf(Protocol):
    """Processes by the names of their files, and when each was noticed to be gone."""

    @property
    def members(self) -> Mapping[str, Member]:
        """All of them."""

    @property
    def gone(self) -> Mapping[str, int]:
        """Monotonic ns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """Some of the processes that a :class:`MemberWatch` follows."""

    members: Mapping[str, Member]
    gone: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """When and how the run, or one of its processes, ended; ``ended_by`` in words."""

    end_ns: int
    status: RunStatus
    exit_code: int | None
    ended_by: str


def job_ended(watch: MemberWatch, drains: Mapping[Path, RingDrain], *, late: bool) -> bool:
    """Whether nothing more will come.

    Args:
        late: ranks that have not presented themselves by now are not waited for.
    """
    members = list(watch.members.values())
    if not members:
        return late
    if not all(has_ended(m, watch, drains) for m in members):
        return False
    if any(m.role == "launcher" for m in members):
        return True
    if starts_again(members, drains):
        return False
    # A quick rank may end before a slow one has even begun.
    last = max(m.attempt for m in members)
    latest = [m for m in members if m.attempt == last]
    missing = max(m.local_world_size for m in latest) - len({m.local_rank for m in latest})
    return missing <= 0 or late or any(m.file_name in watch.gone for m in latest)


def has_ended(member: Member, watch: EndsOf, drains: Mapping[Path, RingDrain]) -> bool:
    """Whether a process is gone, or has said that nothing follows."""
    return member.file_name in watch.gone or _end_of(_drains_of(member, drains)) is not None


def starts_again(members: Sequence[Member], drains: Mapping[Path, RingDrain]) -> bool:
    """Whether ranks are gone that their launcher is about to start another time: not the end."""
    last = max(m.attempt for m in members)
    return any(
        m.attempt == last and m.starts_again() and not _finished(_drains_of(m, drains))
        for m in members
    )


def _finished(drains: Iterable[RingDrain]) -> bool:
    return any(drain.ended and drain.ended[1] == EndCode.FINISHED for drain in drains)


def _drains_of(member: Member, drains: Mapping[Path, RingDrain]) -> list[RingDrain]:
    return [drain for path, drain in drains.items() if path.name.startswith(member.prefix)]


def _end_of(drains: Iterable[RingDrain]) -> tuple[int, int, int] | None:
    return next((drain.ended for drain in drains if drain.ended), None)


def outcome_of(drains: Mapping[Path, RingDrain], watch: EndsOf, detected_ns: int) -> Outcome:
    """How the run ended: a launcher knows best, then the rank of the last attempt that went first.

    When one rank fails or dies, the others fail in a collective or their launcher ends them.
    """
    outcomes: list[Outcome] = []
    first: list[tuple[int, int, int, Outcome]] = []
    for member in last_attempt(watch.members.values()):
        rings = _drains_of(member, drains)
        ended = _end_of(rings)
        last_ns = max((drain.last_ns for drain in rings), default=0)
        died_ns = max(watch.gone.get(member.file_name, detected_ns), last_ns)
        outcome = _outcome(member, ended, died_ns)
        if member.role == "launcher" and ended is not None:
            return _with_words(outcome, watch.members.values())
        outcomes.append(outcome)
        if outcome.status is not RunStatus.FINISHED:
            # Dead in the same moment: the longest silent one.
            went_ns = (
                outcome.end_ns
                if ended
                else watch.gone.get(member.file_name, detected_ns) - NOTICED_NS
            )
            first.append((went_ns, last_ns, len(first), outcome))
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


def _outcome(member: Member, ended: tuple[int, int, int] | None, died_ns: int) -> Outcome:
    """Of one process that said how it ended, or died at ``died_ns``."""
    who = "the command" if member.role == "launcher" else f"rank {member.rank}"
    if ended is None and member.info.get("left") and not member.info.get("error"):
        # An earlier recorder removed its ring, which held when that was.
        return Outcome(member.begin_ns, RunStatus.FINISHED, 0, "")
    if ended is None:
        return Outcome(
            died_ns, RunStatus.KILLED, None, f"{who} died without leaving the watched block"
        )
    end_ns, end, code = ended
    if end == EndCode.FINISHED:
        return Outcome(end_ns, RunStatus.FINISHED, 0, "")
    if code < 0:
        return Outcome(end_ns, RunStatus.KILLED, code, f"{who} was ended by signal {-code}")
    error = member.info.get("error")
    why = f": {error}" if error else f" with exit code {code}"
    return Outcome(end_ns, RunStatus.FAILED, code, f"{who} failed{why}")


def _with_words(command: Outcome, members: Iterable[Member]) -> Outcome:
    """What a command failed of, in the words of the first of its processes that told."""
    with_error = sorted((m for m in members if m.info.get("error")), key=lambda m: m.begin_ns)
    if command.status is not RunStatus.FAILED or not with_error:
        return command
    several = len({m.training for m in members if m.role == "rank"}) > 1
    who = f"training {with_error[0].training}: " if several else ""
    return dataclasses.replace(
        command, ended_by=f"{command.ended_by}: {who}{with_error[0].info['error']}"
    )
