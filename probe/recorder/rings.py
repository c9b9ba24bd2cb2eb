"""The rings of this node's members, and who drains each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..clock import Clock
from ..errors import StoreError
from ..model import Gap
from ..ring.layout import PHASE_OF_CODE
from ..store.members import Member
from .drain import OnBatch, RingDrain
from .fault_guard import DiskGuard


class Rings:
    """All rings that were found; ``drains`` by path, in the order of their finding."""

    def __init__(
        self,
        run: Path,
        epoch: int,
        clock: Clock,
        disk: DiskGuard,
        on_batch: OnBatch,
        guest: str | None,
    ):
        """``guest``: this host, if another one made the run."""
        self._run, self._epoch, self._clock, self._disk = run, epoch, clock, disk
        self._on_batch, self._guest = on_batch, guest
        self.drains: dict[Path, RingDrain] = {}

    def __iter__(self) -> Iterator[RingDrain]:
        return iter(self.drains.values())

    def unsealed(self) -> list[RingDrain]:
        """Those that may still hold something."""
        return [drain for drain in self if not drain.sealed]

    def of(self, members: Iterable[Member]) -> list[RingDrain]:
        """The unsealed ones of some processes."""
        prefixes = tuple(member.prefix for member in members)
        return [d for d in self.unsealed() if d.path.name.startswith(prefixes)]

    def find(self, members: Iterable[Member]) -> None:
        """Open the members' new rings, and beat."""
        for member in members:
            for index, path in enumerate(member.ring_paths(self._run)):
                if path in self.drains:
                    continue
                with contextlib.suppress(StoreError):
                    self.drains[path] = RingDrain(
                        self._run,
                        member.seat,
                        path,
                        epoch=self._epoch,
                        clock=self._clock,
                        main=index == 0,
                        on_batch=self._on_batch,
                        guest=self._guest,
                    )
        self.beat()

    def beat(self) -> None:
        """Tell the trainers that their recorder lives."""
        now_ns = self._clock.now_ns()
        for drain in self.unsealed():
            drain.beat(now_ns, epoch=self._epoch, pid=os.getpid())

    def hold(self, *, refused: bool) -> None:
        """Tell the trainers whether the disk refuses what is recorded."""
        for drain in self.unsealed():
            drain.hold(refused=refused)

    def drain(self, *, final: bool = False) -> list[Gap]:
        """Move what is in the rings to disk; what was lost. A ring that the disk refuses waits.

        Args:
            final: no record follows; also account for those that were dropped last.
        """
        gaps: list[Gap] = []
        for drain in self.unsealed():
            with self._disk():
                gaps += drain.finish() if final else drain.drain()
        return gaps

    def backlogged(self) -> bool:
        """True if one fills faster than it is usually emptied."""
        return any(drain.backlogged() for drain in self.unsealed())

    def small(self) -> bool:
        """True if one is smaller than it should be."""
        return any(drain.small for drain in self.unsealed())

    def just_closed(self) -> bool:
        """True if a writer is done whose last record has not been drained."""
        return any(drain.closed and drain.ended is None for drain in self.unsealed())

    def names(self) -> dict[int, dict[int, str]]:
        """Names of phases by rank and code."""
        names: dict[int, dict[int, str]] = {}
        for drain in self:
            names.setdefault(drain.rank, dict(PHASE_OF_CODE)).update(drain.names)
        return names
