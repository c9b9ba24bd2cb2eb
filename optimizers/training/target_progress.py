"""When a training reaches its target, followed evaluation by evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from probe.target import Target

from ..errors import UsageError

__all__ = ["Progress", "Target"]


class ProgressState(TypedDict):
    """A :class:`Progress` as it is saved."""

    before: tuple[float, float, float] | None
    first: tuple[float, float] | None
    reached: bool


@dataclass(slots=True)
class Progress:
    """Evaluations against a target; reached once two in a row meet it.

    ``samples`` and ``seconds`` are where the line between the evaluation before and the first of
    the two crosses the value.
    """

    target: Target
    before: tuple[float, float, float] | None = None  # samples, seconds, value
    first: tuple[float, float] | None = None  # samples, seconds of the crossing
    reached: bool = False

    def saw(self, metrics: Mapping[str, float], samples: float, seconds: float) -> None:
        """Add an evaluation. Raises UsageError if it lacks the metric."""
        if self.target.metric not in metrics:
            raise UsageError(
                f"the evaluation gives {', '.join(metrics) or 'nothing'}, but the "
                f"target is {self.target}"
            )
        value = float(metrics[self.target.metric])
        if self.reached:
            return
        if not self.target.met(value):
            self.first = None
        elif self.first is None:
            self.first = self._crossing(samples, seconds, value)
        else:
            self.reached = True
        self.before = samples, seconds, value

    def _crossing(self, samples: float, seconds: float, value: float) -> tuple[float, float]:
        if self.before is None or self.before[2] == value:
            return samples, seconds
        share = (self.target.value - self.before[2]) / (value - self.before[2])
        return (
            self.before[0] + share * (samples - self.before[0]),
            self.before[1] + share * (seconds - self.before[1]),
        )

    def state(self) -> ProgressState:
        """What a resumed run needs."""
        return {"before": self.before, "first": self.first, "reached": self.reached}

    def restore(self, state: ProgressState) -> None:
        """Restore what :meth:`state` returned."""
        self.before, self.first, self.reached = state["before"], state["first"], state["reached"]
