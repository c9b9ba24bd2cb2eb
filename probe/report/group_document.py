"""A group as a reader meets it: what all used, a line for each training, where the energy went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import meter_tables, phase_tables, sentences
from .all_devices import all_devices
from .answer import Answer
from .document import Document, Section, beside_the_answer, brief, document
from .group_model import GroupInfo, GroupReport, MemberRow, SharedTime, TimeOutside
from .model import Report, Totals
from .numbers import duration, energy, energy_with_error, share
from .text_tables import Table

_LONGEST = 40  # characters of what tells trainings of one name apart
_MOST_DETAILED = 20  # trainings whose phases follow the group's own tables
_HEAD = ["no.", "training", "energy", "duration", "steps", "status"]


def document_of(report: Report | GroupReport) -> Document:
    """Everything that the formats show of a run or of a group."""
    return group_document(report) if isinstance(report, GroupReport) else document(report)


def brief_of(report: Report | GroupReport) -> list[str]:
    """Five lines for the log of a CI job."""
    if not isinstance(report, GroupReport):
        return brief(report)
    shown = group_document(report)
    return [
        shown.answer.headline,
        shown.answer.used,
        shown.answer.limit or "no note",
        _shares_line(report.group),
        f"{sentences.short(shown.name, 60)} · {shown.state}",
    ]


def group_document(report: GroupReport) -> Document:
    """Everything that the formats show of a group."""
    group = report.group
    notes = [f"training {m.number}: {m.ended_by}" for m in group.members if m.ended_by]
    notes += group.warnings
    limit = ""
    if notes:
        following = len(notes) - 1
        more = f" ({following} more {'note' if following == 1 else 'notes'})" if following else ""
        limit = sentences.short(notes[0], 300) + more
    state = group.status + (f" ({sentences.short(group.ended_by, 120)})" if group.ended_by else "")
    return Document(
        name=group.name or group.id,
        id=group.id,
        begun=sentences.begun(group.started),
        state=f"{state} after {duration(group.duration_s)} · {len(group.members)} trainings"
        f" · {group.steps} steps · {group.id}",
        answer=Answer(_headline(group), _used(group), limit),
        sections=tuple(_sections(report)),
        notes=tuple(notes[1:]),
    )


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


def _sections(report: GroupReport) -> Iterator[Section]:
    group, runs = report.group, report.runs
    first = group.members[0].id if group.members else f"{group.id}/1"
    yield Section(
        "Trainings", (_trainings(group),), (f"one of them alone: `probe report {first}`",)
    )
    each = list(zip(group.members, labels(group.members), runs, strict=True))
    for member, label, run in each[:_MOST_DETAILED]:
        yield _phases(member, label, run)
    left_out = len(runs) - _MOST_DETAILED
    if left_out > 0:
        line = f"{left_out} more have their own reports: `probe report {group.members[-1].id}`"
        yield Section("More trainings", lines=(line,), detail=True)
    table = meter_tables.meters(group.sources, group.duration_s)
    lines = (*meter_tables.sensors(group.sources), *meter_tables.nodes(group.nodes))
    yield Section("Meters", () if table is None else (table,), lines)
    yield Section("How well", pairs=tuple(beside_the_answer(group)))
    phases = [row for run in runs for row in run.phases]
    yield Section(
        "What was measured", pairs=tuple(sentences.provenance(group.sources, phases)), detail=True
    )
    torch = runs[0].torch if runs else "unknown"
    where = sentences.machine(group.machine, group.sources, group.host, torch)
    yield Section("Where", pairs=tuple(where), detail=True)


def _phases(member: MemberRow, label: str, run: Report) -> Section:
    """What its own report begins with."""
    kinds = all_devices(run)
    tables = [phase_tables.together(phases, run) for phases in kinds]
    lines = [line for phases in kinds for line in phase_tables.differences(phases, run)]
    return Section(
        f"Training {member.number}: {label or member.id}",
        tuple(replace(t, title=f"training {member.number}, {t.title}") for t in tables),
        (*lines, *run.warnings, f"all of it: `probe report {member.id}`"),
        detail=True,
    )


def _trainings(group: GroupInfo) -> Table:
    members = group.members
    rows = [
        [
            str(member.number),
            label,
            _joules(member, group, shared=member.shared),
            duration(member.duration_s),
            str(member.steps),
            member.status,
        ]
        for member, label in zip(members, labels(members), strict=True)
    ]
    marks = [""] * len(rows)
    for what, steps, part in _parts(group):
        rows.append(["", what, _joules(part, group), duration(_seconds(part, group)), steps, ""])
        marks.append("")
    marks[-1] = "total"
    return Table("", _HEAD, rows, frozenset({1, 5}), (3,), marks)


def _parts(group: GroupInfo) -> Iterator[tuple[str, str, SharedTime | TimeOutside | Totals]]:
    """What is no training's, and the sum: (name, steps, energy)."""
    if group.shared.trainings:
        yield f"shared by {len(group.shared.trainings)} at the same time", "", group.shared
    yield "in no training", "", group.rest
    yield "all", str(group.steps), group.total


def _seconds(part: SharedTime | TimeOutside | Totals, group: GroupInfo) -> float:
    return group.duration_s if isinstance(part, Totals) else part.duration_s


def _joules(
    part: MemberRow | SharedTime | TimeOutside | Totals, group: GroupInfo, *, shared: bool = False
) -> str:
    """Energy in words; where it is not known, why."""
    if part.energy_j is not None:
        return energy(part.energy_j) + (" + shared" if shared else "")
    if shared:
        return "shared"
    if part.modelled_energy_j is not None:
        return f"({energy(part.modelled_energy_j)} modelled)"
    return "no meter" if group.total.energy_j is None else "not metered"


def _headline(group: GroupInfo) -> str:
    """Which training used most of the energy, or took most of the time."""
    members, total_j = group.members, group.total.energy_j
    if not members:
        return "no training was recorded"
    names = dict(zip((m.number for m in members), labels(members), strict=True))
    metered = [member for member in members if member.energy_j is not None]
    if metered and total_j:
        largest = max(metered, key=_energy_of)
        part = share((largest.energy_j or 0.0) / total_j)
        return f"training {largest.number} ({names[largest.number]}) takes {part} of the energy"
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
    """What all used, by how many trainings, and how these ended."""
    total = group.total
    if total.energy_j is not None:
        low, high = total.energy_j_interval or (total.energy_j, total.energy_j)
        parts = [energy_with_error(total.energy_j, (high - low) / 2)]
        parts += sentences.worth(total, group.cost)
    elif total.modelled_energy_j is not None:
        parts = [f"{energy(total.modelled_energy_j)} by a model of CPU and RAM, no meter"]
        parts += sentences.worth(total, group.cost, modelled=True)
    else:
        parts = [f"{duration(group.duration_s)} in all"]
    return " · ".join([*parts, _ended(group.members)])


def _ended(members: Sequence[MemberRow]) -> str:
    counted = Counter(member.status for member in members)
    each = ", ".join(f"{number} {status}" for status, number in counted.most_common())
    if len(counted) == 1:
        each = f"all {next(iter(counted))}"
    return f"{len(members)} trainings: {each}" if members else "0 trainings"


def _shares_line(group: GroupInfo) -> str:
    """Every training's share of the energy in one line; of the time where that is not known."""
    total_j = group.total.energy_j
    if not total_j or all(member.energy_j is None for member in group.members):
        return "duration: " + ", ".join(
            f"{m.number} {duration(m.duration_s)}" for m in group.members
        )
    parts = [(f"{m.number}", m.energy_j) for m in group.members]
    parts += [("shared", group.shared.energy_j), ("no training", group.rest.energy_j)]
    return "energy: " + ", ".join(
        f"{name} {share(joules / total_j)}" for name, joules in parts if joules is not None
    )
