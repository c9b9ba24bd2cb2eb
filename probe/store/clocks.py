"""The offsets between the monotonic clocks of a job's hosts.

Ranks measure them when they meet (:mod:`probe.session.jobs.clock_sync`): round trips through the
job's own store, the shortest of which bounds the error. If they never met, the hosts' wall clocks
are used, whose difference is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .run_fields import RunFields


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A host's time plus ``offset_ns`` is that of the host that made the run, ± ``bound_ns``."""

    offset_ns: int
    bound_ns: int | None
    method: str


def clocks(home: RunFields, guests: Mapping[str, RunFields]) -> dict[str, ClockOffset]:
    """The offset of every host that joined the run.

    Args:
        home: run.json.
        guests: node.json of each other host, by host.
    """
    return {host: _offset(home, guest) for host, guest in guests.items()}


def _offset(home: RunFields, guest: RunFields) -> ClockOffset:
    here, there = _measured(home), _measured(guest)
    if here is not None and there is not None and here[2] == there[2]:
        return ClockOffset(there[0] - here[0], there[1] + here[1], "round trips")
    return _by_wall(home, guest)


def _measured(stored: RunFields) -> tuple[int, int, str] | None:
    """(offset, bound, host) to the clock of rank 0's host; None if it was not measured."""
    try:
        clock = stored["clock"]
        return int(clock["offset_ns"]), int(clock["bound_ns"]), str(clock["reference"])
    except (TypeError, KeyError, ValueError):
        return None


def _by_wall(home: RunFields, guest: RunFields) -> ClockOffset:
    try:
        here, there = (
            run["anchor"]["wall_ns"] - run["anchor"]["monotonic_ns"] for run in (home, guest)
        )
        return ClockOffset(int(there - here), None, "wall clocks")
    except (TypeError, KeyError):
        return ClockOffset(0, None, "unknown")
