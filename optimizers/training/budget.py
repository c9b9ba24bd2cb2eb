"""What a training may use up: time, energy, memory. It ends when one of them is spent."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from .ranks import agreed, peak_memory

_LIVE_S = 1.0  # the recorder's live page is renewed about as often
_UNMEASURED_S = 20.0  # after this nothing will begin to measure energy


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits beside the samples; infinite unless given.

    Args:
        seconds: of training, evaluations included, on rank 0's clock.
        joules: measured energy of all devices of the run, as in its report. What is known is
            about a second old, and so much is overdrawn.
        memory_bytes: of one process: torch's allocator on a GPU, else resident memory.

    Raises:
        UsageError: a limit is not above 0.
    """

    seconds: float = math.inf
    joules: float = math.inf
    memory_bytes: float = math.inf

    def __post_init__(self) -> None:
        for name in ("seconds", "joules", "memory_bytes"):
            if not getattr(self, name) > 0:
                raise UsageError(f"budget: {name}={getattr(self, name)}: a number above 0")


class Purse:
    """Compares what one training has used up with its budget."""

    def __init__(self, budget: Budget, device: str, run: Any):
        """``run`` is the run of ``probe.watch``, whose live page holds the energy."""
        self._budget, self._device, self._run = budget, device, run
        self._limited = budget != Budget()
        self._energy_j: float | None = None
        self._began = self._looked = time.monotonic()
        self._warned = False

    def spent(self, seconds: float) -> str | None:
        """Which budget is used up: ``time``, ``energy``, ``memory`` or None; ranks agree."""
        if not self._limited:
            return None
        budget, exhausted = self._budget, None
        if seconds > budget.seconds:
            exhausted = "time"
        elif budget.joules < math.inf and self._joules() > budget.joules:
            exhausted = "energy"
        elif budget.memory_bytes < math.inf and peak_memory(self._device) > budget.memory_bytes:
            exhausted = "memory"
        return agreed(exhausted)

    def _joules(self) -> float:
        now = time.monotonic()
        if now - self._looked >= _LIVE_S:
            self._looked = now
            live = self._run.live()
            self._energy_j = live.energy_j() if live is not None else self._energy_j
            unmeasured = self._energy_j is None and now - self._began > _UNMEASURED_S
            if unmeasured and not self._warned:
                self._warned = True
                print(
                    "phasewatt: the budget of joules has no effect, for nothing measures energy "
                    "here (`probe doctor` says why)",
                    file=sys.stderr,
                )
        return self._energy_j or 0.0
