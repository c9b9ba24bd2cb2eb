"""What each phase of the demo truly used: the integral of the tape over its visits."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from itertools import cycle, pairwise
from pathlib import Path
from random import Random
from types import MappingProxyType

from ..errors import StoreError
from ..model import Phase
from ..simulated_card.tape import TapeWriter
from ..store.layout import tape_path
from ..store.new_files import open_new
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
"""What the simulated card draws in each phase of the demo, in W, on average."""
VARIES = 0.03
"""Standard deviation of a visit's power, as a share of its phase's."""

_FACTORS = 9973


class TrueEnergy:
    """Writes the simulated card's tape at the training's own edges, and adds it up by phase."""

    def __init__(self, most: int) -> None:
        """Before the run: no tape yet. ``most`` is how many edges it will have space for."""
        self._most = most
        self._tape: TapeWriter | None = None
        self._edges: list[tuple[int, str, float]] = []
        random = Random(0)
        # Made beforehand: what happens at an edge is part of a phase.
        self._factors = cycle([1 + VARIES * random.gauss(0, 1) for _ in range(_FACTORS)])

    def make_tape(self, run: Path) -> None:
        """Begin it, in the directory of a new run. Raises StoreError."""
        try:
            with open_new(tape_path(run)) as file:
                self._tape = TapeWriter(file, self._most)
        except OSError as error:
            raise StoreError(f"cannot write into {run}: {error.strerror}") from None
        self.enter(Phase.STARTUP)

    def enter(self, phase: str) -> None:
        """The phase begins now; the one before ends.

        Raises:
            IndexError: the tape is full.
        """
        if self._tape is not None:
            watts = LEVELS_W[phase] * next(self._factors)
            now_ns = time.monotonic_ns()
            self._tape.write(now_ns, watts)
            self._edges.append((now_ns, phase, watts))

    def close(self) -> None:
        """End the tape, once the run is sealed."""
        if self._tape is not None:
            self._tape.close()
            self._tape = None

    def joules(self) -> dict[str, float]:
        """True energy in J by phase, of the phases that have ended."""
        joules: defaultdict[str, float] = defaultdict(float)
        for (begin_ns, phase, watts), (end_ns, _, _) in pairwise(self._edges):
            joules[phase] += watts * (end_ns - begin_ns) / NS_PER_S
        return dict(joules)
