"""The three verbs of a sensor that only polls meters; subclasses name the meters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from ...clock import Clock
from ...errors import SensorUnavailable
from ...model import Absence, Reading, Source
from ...units import NS_PER_S
from ..base import SensorContext
from .polling import GROUP_NS, Link, Meter, open_polls
from .session import Device, Session, open_devices


class Pollable(Protocol):
    """What the read loop needs of a poll."""

    next_ns: int

    def read(self, clock: Clock, out: list[Reading]) -> None: ...


class NvmlPoller:
    """Opens the selected devices, probes the meters of each, reads what is due."""

    name: ClassVar[str]

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self.rule = ""  # which rule selected the devices
        self.context = context
        self.session: Session | None = None
        self._polls: list[Pollable] = []

    def meters(self, session: Session, device: Device) -> Sequence[Meter]:
        """The meters of one device, none of them probed yet."""
        raise NotImplementedError

    def more(self, session: Session, device: Device) -> tuple[list[Pollable], list[Source]]:
        """Polls of another kind, already probed."""
        return [], []

    def open(self) -> Sequence[Source]:
        context = self.context
        session, devices, self.rule = open_devices(context.requests, self.absent, self.warnings)
        self.session = session
        sources: list[Source] = []
        for device in devices:
            link = Link(session, device)
            polls, found = open_polls(
                self.meters(session, device), link, context.clock, self.name, self.absent
            )
            others, further = self.more(session, device)
            self._polls += [*polls, *others]
            sources += [*found, *further]
        if not sources:
            self.close()
            first = self.absent[0]
            raise SensorUnavailable(f"{first.what}: {first.reason}", first.remedy)
        return sources

    def read(self) -> Iterable[Reading]:
        out: list[Reading] = []
        due = self.context.clock.now_ns() + GROUP_NS
        for poll in self._polls:
            if poll.next_ns <= due:
                poll.read(self.context.clock, out)
        return out

    def next_read_ns(self) -> int:
        if not self._polls:
            return self.context.clock.now_ns() + NS_PER_S
        return min(poll.next_ns for poll in self._polls)

    def close(self) -> None:
        session, self.session = self.session, None
        self._polls = []
        if session is not None:
            session.close()
