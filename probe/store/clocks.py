"""How the monotonic clocks of a job's hosts lie to each other.

Ranks measure it when they meet (:mod:`probe.session.clock_sync`): round trips through the job's
own store, the shortest of which bounds the error. Where they never met, the hosts' wall clocks
have to do, and how far those are apart nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A host's time plus ``offset_ns`` is that of the host that made the run, ± ``bound_ns``."""

    offset_ns: int
    bound_ns: int | None
    method: str


def clocks(
    home: Mapping[str, Any], guests: Mapping[str, Mapping[str, Any]]
) -> dict[str, ClockOffset]:
    """By host, of those that joined; ``home`` is run.json, ``guests`` their files."""
    by_host = {}
    here = _measured(home)
    for name, stored in guests.items():
        there = _measured(stored)
        if here is not None and there is not None and here[2] == there[2]:
            by_host[name] = ClockOffset(there[0] - here[0], there[1] + here[1], "round trips")
        else:
            by_host[name] = _by_wall(home, stored)
    return by_host


def _measured(stored: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """(offset, bound) to the clock of rank 0's host, and which that is."""
    try:
        clock = stored["clock"]
        return int(clock["offset_ns"]), int(clock["bound_ns"]), str(clock["reference"])
    except (TypeError, KeyError, ValueError):
        return None


def _by_wall(home: Mapping[str, Any], guest: Mapping[str, Any]) -> ClockOffset:
    try:
        here, there = (
            run["anchor"]["wall_ns"] - run["anchor"]["monotonic_ns"] for run in (home, guest)
        )
        return ClockOffset(int(there - here), None, "wall clocks")
    except (TypeError, KeyError):
        return ClockOffset(0, None, "unknown")
