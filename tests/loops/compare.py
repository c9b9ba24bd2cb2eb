"""A loop's truth beside what was recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PHASES = ("data", "forward", "backward", "optimizer", "eval", "inference", "checkpoint")
SHARE, EACH_S = 0.02, 15e-6


@dataclass(frozen=True)
class Difference:
    """One figure that is not right."""

    what: str
    true: float
    seen: float

    def __str__(self) -> str:
        return f"{self.what}: true {self.true:g}, seen {self.seen:g}"


def differences(
    true: Mapping[str, Any],
    steps: int,
    count: Mapping[str, int],
    seconds: Mapping[str, float],
    *,
    share: float = SHARE,
    each_s: float = EACH_S,
) -> list[Difference]:
    """What of the recorded counts and seconds is not true.

    Args:
        true: as :meth:`truth.Counts.as_json` gives it.
        steps: seen.
        count: seen, by phase.
        seconds: seen, by phase.
        share: of the true seconds that those seen may differ by, or
        each_s: so much a call, or an occurrence where calls are not counted, whichever is more.
    """
    wrong = [] if steps == true["steps"] else [Difference("steps", true["steps"], steps)]
    for phase in PHASES:
        often, seen = true["count"].get(phase, 0), count.get(phase, 0)
        if often != seen:
            wrong.append(Difference(f"{phase} count", often, seen))
        calls = max(1, often, true.get("calls", {}).get(phase, 0))
        true_s, seen_s = true["seconds"].get(phase, 0.0), seconds.get(phase, 0.0)
        if abs(seen_s - true_s) > max(share * true_s, each_s * calls):
            wrong.append(Difference(f"{phase} seconds", true_s, seen_s))
    return wrong
