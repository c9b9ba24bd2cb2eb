"""What each phase of the demo truly used: its time on the tape, times its power."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..model import Phase
from ..simulated_card.tape import TapeWriter
from ..store.layout import tape_path
from ..units import NS_PER_S

LEVELS_W: Mapping[str, float] = MappingProxyType(
    {
        Phase.STARTUP: 70.0,
        Phase.DATA: 95.0,
        Phase.FORWARD: 310.0,
        Phase.BACKWARD: 420.0,
        Phase.OPTIMIZER: 190.0,
        Phase.OTHER: 70.0,
        Phase.UNATTRIBUTED: 70.0,
    }
)
"""What the simulated card draws in each phase of the demo, in W."""


class TrueEnergy:
    """Writes the simulated card's tape at the training's own edges, and adds it up by phase."""

    def __init__(self, most: int) -> None:
        """Before the run: no tape yet. ``most`` is how many edges it will have space for."""
        self._most = most
        self._tape: TapeWriter | None = None
        self._phase, self._since_ns = str(Phase.STARTUP), 0
        self._spent_ns: defaultdict[str, int] = defaultdict(int)

    def make_tape(self, run: Path) -> None:
        """Begin it, in the directory of a new run. Raises OSError."""
        self._tape = TapeWriter(tape_path(run), self._most)
        self._since_ns = time.monotonic_ns()
        self._tape.write(self._since_ns, LEVELS_W[self._phase])

    def enter(self, phase: str) -> None:
        """The phase begins now; the one before ends.

        Raises:
            IndexError: the tape is full.
        """
        if self._tape is None:
            return
        now_ns = time.monotonic_ns()
        self._tape.write(now_ns, LEVELS_W[phase])
        self._spent_ns[self._phase] += now_ns - self._since_ns
        self._phase, self._since_ns = phase, now_ns

    @property
    def is_full(self) -> bool:
        """Whether a further step might find no space."""
        return self._tape is not None and self._tape.is_full

    def joules(self) -> dict[str, float]:
        """True energy in J by phase, of the phases that have ended."""
        return {p: LEVELS_W[p] * ns / NS_PER_S for p, ns in self._spent_ns.items()}
