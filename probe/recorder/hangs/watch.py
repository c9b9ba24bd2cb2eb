"""Names a rank that has recorded no edge for too long, where the training asked for that.

Every process is judged by its own edges: in a hang of a collective most ranks wait for the one that
does not come. A warning stays when the training goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...clock import Clock
from ...model import Phase
from ...report.numbers import duration
from ...ring.layout import PHASE_OF_CODE, Code
from ...store.field_kinds import is_whole
from ...store.layout import stacks_path
from ...store.members import Member
from ...store.processes import process_state
from ...store.untrusted import is_regular
from ...units import NS_PER_S
from ..drain import RingDrain
from ..job_end import EndsOf, has_ended
from .stacks import Frame, other_places, place, read_stacks

BEGINS = "no step for "
_LONGEST_S = 1e9
_MOST = 5  # hangs of a rank that are named; then they are counted
# Phases that later edges would have decided, as they look now.
_UNDECIDED: dict[int, Phase] = {
    Code.TAIL: Phase.FORWARD,
    Code.NO_GRAD: Phase.INFERENCE,
    Code.RESUMED: Phase.OPTIMIZER,
    Code.LOADING: Phase.DATA,
    Code.FIRST_LOADING: Phase.DATA,
    Code.SAVING_ON: Phase.CHECKPOINT,
}
_STATES = {"T": "stopped by a signal", "t": "stopped by a debugger", "D": "waiting in the kernel"}


@dataclass(slots=True)
class _Hang:
    """One rank's, from its last edge on; ``_ns`` are monotonic."""

    who: str
    after_s: float
    phase: str
    since: str  # local time
    last_ns: int
    state: str
    path: Path
    thread: int
    stacks: Mapping[int, list[Frame]] = field(default_factory=dict)
    went_on: str = ""


class HangWatch:
    """:meth:`look` every half second; :meth:`warnings` are for the run's file."""

    def __init__(self, run: Path, clock: Clock, earlier: Iterable[str] = ()):
        """Begin.

        Args:
            run: its directory.
            clock: of the machine.
            earlier: the run's warnings so far; what a recorder before this one named, stays.
        """
        self._run, self._clock = run, clock
        self._begin_ns = clock.now_ns()  # what an earlier recorder saw is not known here
        self._earlier = [line for line in earlier if line.startswith(BEGINS)]
        self._hangs: list[_Hang] = []
        self._now: dict[str, _Hang] = {}  # that go on, by the file of the member
        self._count: dict[str, int] = {}
        self._shown: list[str] = self._earlier

    def look(
        self, ends: EndsOf, drains: Mapping[Path, RingDrain], drain: Callable[[], None]
    ) -> None:
        """Find ranks that hang, read where, and note which went on.

        Args:
            ends: the run's processes.
            drains: their rings.
            drain: moves what is in the rings; called before a rank is said to hang.
        """
        followed = {
            name: member
            for name, member in ends.members.items()
            if member.role == "rank"
            and _after_ns(member) is not None
            and not has_ended(member, ends, drains)
        }
        silent = [name for name, member in followed.items() if self._is_silent(member, drains)]
        if silent and not all(name in self._now for name in silent):
            drain()
        several = any(member.training > 1 for member in ends.members.values())
        for name, hang in list(self._now.items()):
            if _last_ns(ends.members[name], drains) > hang.last_ns:
                hang.went_on = _time(self._clock.now_ns(), self._clock)
                del self._now[name]
        for name, member in followed.items():
            if name not in self._now and self._is_silent(member, drains):
                self._begin(name, member, drains, several=several)
        for hang in self._now.values():
            since_s = _wall_s(hang.last_ns, self._clock)
            hang.stacks = read_stacks(hang.path, since_s) or hang.stacks

    def tidy(self, members: Iterable[Member]) -> None:
        """Remove files of stacks that no warning names. Raises OSError.

        They are empty, of a process that was killed, or of an evaluation longer than the limit.
        """
        said = " ".join(self.warnings())
        for member in members:
            if member.role == "rank" and _after_ns(member) is not None:
                path = stacks_path(self._run, member.training, member.rank)
                if is_regular(path) and self._shown_name(path) not in said:
                    path.unlink()

    def has_news(self) -> bool:
        """Whether the warnings have changed since the last call."""
        before, self._shown = self._shown, self.warnings()
        return self._shown != before

    def warnings(self) -> list[str]:
        """One line for each rank that hangs or hung."""
        lines = [self._line(hang) for hang in self._hangs]
        more = sum(max(0, number - _MOST) for number in self._count.values())
        if more:
            lines.append(f"{BEGINS}as long {more} more times: each rank's first {_MOST} are named")
        return [*self._earlier, *lines]

    def _shown_name(self, stacks: Path) -> str:
        return f"{self._run.name}/{stacks.relative_to(self._run)}"

    def _is_silent(self, member: Member, drains: Mapping[Path, RingDrain]) -> bool:
        if any(each.pending for each in _of(member, drains)):
            return False  # there are edges that the disk does not take
        after_ns = _after_ns(member)
        last_ns = max(self._begin_ns, _last_ns(member, drains))
        return after_ns is not None and self._clock.now_ns() - last_ns > after_ns

    def _begin(
        self, name: str, member: Member, drains: Mapping[Path, RingDrain], *, several: bool
    ) -> None:
        hang = _hang(member, self._run, drains, self._clock, several=several)
        self._now[name] = hang
        self._count[name] = self._count.get(name, 0) + 1
        if self._count[name] > _MOST:
            return
        self._hangs.append(hang)

    def _line(self, hang: _Hang) -> str:
        text = f"{BEGINS}{duration(hang.after_s)}: {hang.who} "
        now = "was" if hang.went_on else "has been"
        text += f"{now} in {hang.phase} since {hang.since}"
        if hang.state in _STATES:
            text += f", {_STATES[hang.state]}"
        if hang.stacks:
            if where := place(hang.stacks.get(hang.thread, ())):
                text += f", at {where}"
            text += f" ({self._shown_name(hang.path)})"
            others = other_places(hang.stacks, hang.thread)
            text += f"; other threads: {', '.join(others)}" if others else ""
        if hang.went_on:
            text += f"; it went on at {hang.went_on}"
        return text


def _time(at_ns: int, clock: Clock) -> str:
    """A monotonic instant in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(_wall_s(at_ns, clock)))


def _wall_s(at_ns: int, clock: Clock) -> float:
    """A monotonic instant as unix time."""
    return clock.wall_s() - (clock.now_ns() - at_ns) / NS_PER_S


def _hang(
    member: Member, run: Path, drains: Mapping[Path, RingDrain], clock: Clock, *, several: bool
) -> _Hang:
    last_ns = _last_ns(member, drains)
    main = next((each for each in _of(member, drains) if each.phase is not None), None)
    since_ns, code = main.phase if main is not None and main.phase else (last_ns, Code.STARTUP)
    names = PHASE_OF_CODE | (main.names if main is not None else {})
    asked = member.info["hang"]
    return _Hang(
        who=f"training {member.training}, rank {member.rank}" if several else f"rank {member.rank}",
        after_s=float(asked["after_s"]),
        phase=str(names.get(code) or _UNDECIDED.get(code, Phase.OTHER)),
        since=_time(since_ns, clock),
        last_ns=last_ns,
        state=process_state(member.pid),
        path=stacks_path(run, member.training, member.rank),
        thread=int(asked["thread"]),
    )


def _after_ns(member: Member) -> int | None:
    """What the training calls a hang; None if it did not ask, or its file says nonsense."""
    asked: object = member.info.get("hang")
    if not isinstance(asked, dict):
        return None
    after_s = asked.get("after_s")
    if not is_whole(asked.get("thread")):
        return None
    if not isinstance(after_s, int | float) or not 0 < after_s < _LONGEST_S:
        return None
    return int(after_s * NS_PER_S)


def _of(member: Member, drains: Mapping[Path, RingDrain]) -> list[RingDrain]:
    return [each for path, each in drains.items() if path.name.startswith(member.prefix)]


def _last_ns(member: Member, drains: Mapping[Path, RingDrain]) -> int:
    """Its last edge that has been drained; its begin if there is none."""
    return max([member.begin_ns, *(each.last_ns for each in _of(member, drains))])
