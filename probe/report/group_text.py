"""A group for a terminal: which training used most, then a line for each."""

from __future__ import annotations

from collections.abc import Sequence

from . import sentences
from .group_model import GroupInfo, GroupReport, MemberRow, SharedTime, TimeOutside
from .model import Totals
from .numbers import duration, energy, energy_with_error, share
from .text_tables import Table

_LONGEST = 40  # characters of what tells trainings of one name apart
_HEAD = ["", "name", "steps", "duration", "energy", "status"]


def render(report: GroupReport) -> str:
    """One screen: which training used most, what all used, and where the energy went."""
    group = report.group
    members = group.members
    state = group.status + (f" ({group.ended_by})" if group.ended_by else "")
    notes = [f"{m.number}: {m.ended_by}" for m in members if m.ended_by] + [*group.warnings]
    lines = [
        _headline(group),
        _used(group),
        *([f"! {_limit(notes)}"] if notes else []),
        "",
        f"{group.name or group.id} · {state} after {duration(group.duration_s)}"
        f" · {len(members)} trainings · {group.steps} steps · {group.id}",
        "",
    ]
    rows = [
        [
            str(member.number),
            label,
            str(member.steps),
            duration(member.duration_s),
            _joules(member, shared=member.shared),
            member.status,
        ]
        for member, label in zip(members, labels(members), strict=True)
    ]
    rows += _totals(group)
    lines += Table("trainings", _HEAD, rows, frozenset({0, 1, 5})).lines()
    if len(notes) > 1:
        lines += ["", *(f"! {line}" for line in notes[1:])]
    first = members[0].id if members else f"{group.id}/1"
    lines += ["", f"one of them: probe report {first}"]
    return "\n".join(lines)


def labels(members: Sequence[MemberRow]) -> list[str]:
    """What tells the trainings apart: the name, and the words of the command that differ."""
    commands = [list(member.command) for member in members]
    common = set.intersection(*map(set, commands)) if commands else set()
    shown = []
    for member, command in zip(members, commands, strict=True):
        own = [word for word in command if word not in common]
        parts = [member.name, *own, member.process or ""]
        shown.append(sentences.short(" ".join(part for part in parts if part), _LONGEST))
    return shown


def _totals(group: GroupInfo) -> list[list[str]]:
    shared, rest, total = group.shared, group.rest, group.total
    rows = []
    if shared.trainings:
        several = len(shared.trainings)
        what = f"shared by {several} at the same time"
        rows.append(["", what, "", duration(shared.duration_s), _joules(shared), ""])
    rows.append(["", "in no training", "", duration(rest.duration_s), _joules(rest), ""])
    rows.append(["", "all", str(group.steps), duration(group.duration_s), _joules(total), ""])
    return rows


def _joules(part: MemberRow | SharedTime | TimeOutside | Totals, *, shared: bool = False) -> str:
    if part.energy_j is not None:
        return energy(part.energy_j) + (" + shared" if shared else "")
    if shared:
        return "shared"
    if part.modelled_energy_j is not None:
        return f"({energy(part.modelled_energy_j)} modelled)"
    return "—"


def _headline(group: GroupInfo) -> str:
    """Which training used most of the energy, or took most of the time."""
    members, total_j = group.members, group.total.energy_j
    if not members:
        return "no training was recorded"
    names = dict(zip((m.number for m in members), labels(members), strict=True))
    known = [member for member in members if member.energy_j is not None]
    if known and total_j:
        most = max(known, key=_energy_of)
        part = share((most.energy_j or 0.0) / total_j)
        return f"training {most.number} ({names[most.number]}) takes {part} of the energy"
    longest = max(members, key=_duration_of)
    reason = "no energy meter" if total_j is None else "no training's own energy is known"
    return (
        f"training {longest.number} ({names[longest.number]}) took longest, "
        f"{duration(longest.duration_s)}; {reason}"
    )


def _energy_of(member: MemberRow) -> float:
    return member.energy_j or 0.0


def _duration_of(member: MemberRow) -> float:
    return member.duration_s


def _used(group: GroupInfo) -> str:
    total = group.total
    if total.energy_j is not None:
        low, high = total.energy_j_interval or (total.energy_j, total.energy_j)
        parts = [energy_with_error(total.energy_j, (high - low) / 2)]
        parts += sentences.worth(total, group.cost)
    elif total.modelled_energy_j is not None:
        parts = [f"{energy(total.modelled_energy_j)} by a model of CPU and RAM, no meter"]
        parts += sentences.worth(total, group.cost, modelled=True)
    else:
        return f"{duration(group.duration_s)} in all"
    return " · ".join([*parts, f"{len(group.members)} trainings"])


def _limit(notes: Sequence[str]) -> str:
    following = len(notes) - 1
    more = f" ({following} {'note' if following == 1 else 'notes'} below)" if following else ""
    return f"{sentences.short(notes[0], 300)}{more}"
