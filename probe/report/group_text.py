"""A group for a terminal: a line for each training, then what all of it used."""

from __future__ import annotations

from collections.abc import Sequence

from . import sentences
from .group_model import GroupInfo, GroupReport, MemberRow, SharedTime, TimeOutside
from .model import Totals
from .numbers import duration, energy
from .text_tables import Table

_LONGEST = 40  # characters of what tells trainings of one name apart
_HEAD = ["", "name", "steps", "duration", "energy", "status"]


def render(report: GroupReport) -> str:
    """One screen: the command, its trainings, and where the energy went."""
    group = report.group
    members = group.members
    state = group.status + (f" ({group.ended_by})" if group.ended_by else "")
    lines = [
        f"{group.name or group.id} · {state} · {duration(group.duration_s)}"
        f" · {len(members)} trainings · {group.steps} steps · {group.id}",
        *_used(group),
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
    failed = [m for m in members if m.ended_by]
    if failed:
        lines += ["", *(f"{m.number}: {m.ended_by}" for m in failed)]
    if group.warnings:
        lines += ["", *(f"! {line}" for line in group.warnings)]
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


def _used(group: GroupInfo) -> list[str]:
    total = group.total
    measured = "no energy meter"
    if total.energy_j is not None and total.energy_j_interval is not None:
        low, high = total.energy_j_interval
        half = (high - low) / 2
        measured = f"{energy(total.energy_j, half)} ± {energy(half, half)}"
    lines = ["   ".join([f"measured  {measured}", *sentences.worth(total, group.cost)])]
    if total.modelled_energy_j is not None:
        lines.append(
            f"modelled  {energy(total.modelled_energy_j)}   "
            "a model of CPU and RAM, not in the measured energy"
        )
    return lines
