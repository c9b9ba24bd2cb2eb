"""What each meter counted, how it shows power, and how well it did."""

from __future__ import annotations

from collections.abc import Sequence

from ..simulated_card import WORD
from .model import NodeRow, SourceRow
from .numbers import duration, energy, energy_with_error, watts
from .text_tables import Table

_MOST_NAMES = 4


def meters(sources: Sequence[SourceRow], seconds: float) -> Table | None:
    """A row per meter of a run of so many seconds; None without any."""
    if not sources:
        return None
    missed = any(source.gaps for source in sources)
    head = ["device", "energy", "mean power", "every", *(["missed"] if missed else [])]
    rows = [
        [*_numbers(source, seconds), *([str(source.gaps)] if missed else []),
         source.method, _counted(source)]
        for source in sources
    ]  # fmt: skip
    marks = ["modelled" if source.is_modelled else "" for source in sources]
    words = frozenset({0, len(head), len(head) + 1})
    optional = (*([4] if missed else []), 3, 2)
    return Table("", [*head, "meter", "counted"], rows, words, optional, marks)


def _numbers(source: SourceRow, seconds: float) -> list[str]:
    mean_w = source.energy_j / seconds if source.energy_j is not None and seconds else None
    every = duration(source.period_s) if source.period_s else "—"
    return [source.device, energy(source.energy_j), watts(mean_w), every]


def _counted(source: SourceRow) -> str:
    if source.shared:
        return "in the group's total"
    if source.is_modelled:
        return "modelled"
    return "in the total" if source.in_total else "not in the total"


def sensors(sources: Sequence[SourceRow]) -> list[str]:
    """How each meter shows power and whether its readings fit that, devices alike in one line."""
    lines: dict[str, list[str]] = {}
    for source in sources:
        for text in (_response(source), _note(source), _systematic(source)):
            if text:
                lines.setdefault(text, []).append(source.device)
    return [f"{names(devices)}: {text}" for text, devices in lines.items()]


def nodes(rows: Sequence[NodeRow]) -> list[str]:
    """What the meter of each whole node says beside those of its parts."""
    return [_node(row) for row in rows]


def _node(row: NodeRow) -> str:
    low, high = row.energy_j_interval
    line = f"{row.device}: {energy_with_error(row.energy_j, (high - low) / 2)} by {row.method}"
    if row.parts_j is None or row.rest_j is None or row.rest_j_interval is None:
        return f"{line}; none of its parts has a meter that counts; in no phase"
    low, high = row.rest_j_interval
    rest = energy_with_error(row.rest_j, (high - low) / 2)
    return (
        f"{line}; {names(list(row.parts))}: {energy(row.parts_j)} of it; the rest, {rest}, is "
        "what no meter here tells apart (fans, power supplies, board); in no phase"
    )


def names(devices: list[str]) -> str:
    """Devices by name; of many, how many."""
    if len(devices) <= _MOST_NAMES:
        return ", ".join(devices)
    return f"{len(devices)} devices ({devices[0]} … {devices[-1]})"


def _response(source: SourceRow) -> str:
    response, fit = source.response, source.fit
    if response is None or fit is None:
        return ""
    in_time = response.kind == "in time"
    shown = "shows power in time" if in_time else f"{source.note or response.kind} (allowed for)"
    if fit.ok:
        return f"{shown}; its readings fit that"
    return f"{shown}; its readings do not fit that: {fit.remedy}"


def _note(source: SourceRow) -> str:
    """What else is particular to a meter, if its response does not say it already."""
    late = source.response is not None and source.response.kind != "in time"
    return "" if late or source.is_modelled else source.note


def _systematic(source: SourceRow) -> str:
    """How far the meter may be off as a whole, of those that are in the total."""
    errors = source.systematic
    if not source.in_total or errors is None:
        return ""
    if errors.from_ == "database":
        return (
            f"shows {1 + errors.gain:.3f} × power {errors.offset_w:+.1f} W, as published "
            "for this card; the energies above are as it shows them"
        )
    if source.simulated:
        return f"{WORD}: this card does not exist"
    return f"may be off by ±{100 * errors.gain:.0f} %, all phases alike, beside the intervals"
