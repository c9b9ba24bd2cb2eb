"""Numbers with the digits that they deserve."""

from __future__ import annotations

import math


def number(value: float | None, half_width: float | None = None) -> str:
    """``value`` rounded at the first digit of its uncertainty; three digits without one."""
    if value is None:
        return "—"
    if value == 0:
        return "0"
    if half_width is not None and half_width > 0 and math.isfinite(half_width):
        place = -math.floor(math.log10(half_width))
    else:
        place = 2 - math.floor(math.log10(abs(value)))
    # Never fewer than one digit of the value, never more than six.
    own = -math.floor(math.log10(abs(value)))
    place = min(max(place, own), own + 5)
    rounded = round(value, place)
    return f"{rounded:.{max(0, place)}f}" if place > 0 else f"{rounded:.0f}"


def interval(low: float, high: float) -> str:
    """``low … high`` with digits by the width."""
    width = (high - low) / 2
    return f"{number(low, width)} … {number(high, width)}"


def duration(seconds: float) -> str:
    """83 µs, 12.3 ms, 4.21 s, 2 min 05 s, 3 h 12 min."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{number(seconds * 1e3)} ms"
    if seconds < 100:
        return f"{number(seconds)} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"


def energy(joules: float | None, half_width: float | None = None) -> str:
    """Joules, from 10 kJ on kilojoules, from 3.6 MJ on kWh."""
    if joules is None:
        return "—"
    for limit, factor, unit in ((3.6e6, 3.6e6, "kWh"), (1e4, 1e3, "kJ")):
        if abs(joules) >= limit:
            half = half_width / factor if half_width else None
            return f"{number(joules / factor, half)} {unit}"
    return f"{number(joules, half_width)} J"
