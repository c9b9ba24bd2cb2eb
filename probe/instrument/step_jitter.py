"""A short random rest before some steps, for trainings whose step runs in lock with the meter.

If the step's period divides the meter's, every update falls at the same place of the step
and its phases cannot be told apart. Only the steps themselves can break that. Opt-in, as it
costs time: it is recorded as a separate phase, so that the report says how much.
"""

from __future__ import annotations

import random
import time

from .state_machine import PhaseStateMachine

LONGEST_S = 0.02
NAME = "dither"


class StepJitter:
    """Called when a step has closed; rests before a ``share`` of the steps."""

    def __init__(self, machine: PhaseStateMachine, code: int, share: float):
        self._machine, self._code, self._share = machine, code, share
        self._random = random.Random()  # not the user's: their run stays as it is

    def __call__(self) -> None:
        """Perhaps sleep, up to 20 ms, as the phase ``dither``."""
        if self._random.random() >= self._share:
            return
        self._machine.user_enter(self._code)
        try:
            time.sleep(self._random.uniform(0, LONGEST_S))
        finally:
            self._machine.user_leave(self._code)
