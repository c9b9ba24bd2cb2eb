"""A report as a reader meets it: the answer, then tables and lines. Every format renders this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import meter_tables, phase_tables, rank_tables, sentences, usage_tables
from .all_devices import METERED, MODELLED, all_devices
from .answer import Answer, answer, shares_line
from .group_model import GroupInfo
from .model import Report
from .numbers import duration, energy, number
from .text_tables import Table

_FEW_RANKS = 4  # of more, sentences stand for the tables


@dataclass(frozen=True, slots=True)
class Section:
    """Tables, lines and (what, how) pairs under a heading.

    ``detail``: what a short form leaves out, and a page hides until it is asked for.
    """

    title: str
    tables: tuple[Table, ...] = ()
    lines: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    detail: bool = False

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to show."""
        return not (self.tables or self.lines or self.pairs)


@dataclass(frozen=True, slots=True)
class Document:
    """What every format of a report shows, in its order.

    Attributes:
        name: of the run, as its user gave it.
        id: of the run or group.
        begun: when it began, in words.
        state: how it stands, how long it took, its steps and its id, in one line.
        answer: the first lines.
        sections: phases, devices, ranks, how well, where.
        notes: the report's warnings.
    """

    name: str
    id: str
    begun: str
    state: str
    answer: Answer
    sections: tuple[Section, ...]
    notes: tuple[str, ...]

    def shown(self, *, details: bool) -> list[Section]:
        """The sections that are not empty, with or without details."""
        return [
            section
            for section in self.sections
            if not section.is_empty and (details or not section.detail)
        ]


def document(report: Report) -> Document:
    """Everything that the formats show of a run."""
    run = report.run
    first = answer(report)
    sections = (*_phases(report), _meters(report), *_ranks(report), *_about(report))
    notes = tuple(line for line in report.warnings if line != run.note and not first.states(line))
    return Document(
        run.title, run.id, sentences.begun(run.started), state(report), first, sections, notes
    )


def state(report: Report) -> str:
    """How a run stands, in one line."""
    run = report.run
    ended = f" ({sentences.short(run.ended_by, 120)})" if run.ended_by else ""
    if run.part_s:  # how long the whole run took is not known here
        first, last = map(number, run.part_s)
        parts = [f"{run.status}{ended}", f"only from {first} s to {last} s"]
    else:
        after = "for" if not report.final else "after"
        parts = [f"{run.status}{ended} {after} {duration(run.duration_s)}"]
    if run.steps:
        parts.append(sentences.steps(run))
    if run.ranks > 1:
        parts.append(f"{run.ranks} ranks")
    return " · ".join([*parts, *([run.id] if run.id else [])])


def brief(report: Report) -> list[str]:
    """Five lines for the log of a CI job."""
    first = answer(report)
    return [
        first.headline,
        first.used,
        first.limit or "no note",
        shares_line(report),
        f"{sentences.short(report.run.title, 60)} · {state(report)}",
    ]


def _phases(report: Report) -> Iterator[Section]:
    tables = all_devices(report)
    metered = any(table.kind == METERED for table in tables)
    for phases in tables:
        yield Section(
            "Phases" if phases is tables[0] else "",
            (phase_tables.together(phases, report),),
            tuple(phase_tables.differences(phases, report)),
            detail=metered and phases.kind == MODELLED,
        )
    yield Section(
        "Memory and utilisation",
        (
            *usage_tables.activity(report),
            *usage_tables.gpu_memory(report),
            *usage_tables.processes(report),
        ),
        tuple(usage_tables.growth(report)),
    )
    each = phase_tables.each_device(report)
    if len(each) > len(tables):
        yield Section("Each device", tuple(each), detail=True)
    devices = usage_tables.busy_devices(report)
    if len(devices) > 1:
        busy = [table for device in devices for table in usage_tables.activity(report, device)]
        yield Section("How busy each device was", tuple(busy), detail=True)


def _meters(report: Report) -> Section:
    table = meter_tables.meters(report.sources, report.run.duration_s)
    tables = () if table is None else (table,)
    lines = (*meter_tables.sensors(report.sources), *meter_tables.nodes(report.nodes))
    return Section("Meters", tables, lines)


def _ranks(report: Report) -> Iterator[Section]:
    tables = tuple(rank_tables.tables(report))
    few = len(report.ranks) <= _FEW_RANKS
    if not few:
        yield Section("Ranks", lines=tuple(rank_tables.lines(report)))
    yield Section("Ranks" if few else "Each rank", tables, detail=not few)


def _about(report: Report) -> Iterator[Section]:
    yield Section("How well", pairs=tuple(_well(report)))
    yield Section(
        "What was measured",
        pairs=tuple(sentences.provenance(report.sources, report.phases)),
        detail=True,
    )
    where = sentences.machine(report.machine, report.sources, report.run.host, report.torch)
    yield Section("Where", pairs=tuple(where), detail=True)


def _well(report: Report) -> Iterator[tuple[str, str]]:
    """(what, how) of the whole recording, and what else stands beside the answer."""
    logged = [f"{name} {number(value.last)}" for name, value in report.values.items()
              if name not in ("samples", "tokens")]  # fmt: skip
    counted = [f"{name} {value.sum:.0f}" for name, value in report.values.items()
               if name in ("samples", "tokens") and value.sum is not None]  # fmt: skip
    rows = [("recomputation", again)] if (again := sentences.recomputation(report)) else []
    if logged or counted:
        rows.append(("logged", ", ".join([*counted, *logged])))
    yield from beside_the_answer(report, rows)


def beside_the_answer(
    report: Report | GroupInfo, more: Sequence[tuple[str, str]] = ()
) -> Iterator[tuple[str, str]]:
    """(what, how): what is modelled beside the measured, how well it was recorded, tariffs."""
    total = report.total
    if total.energy_j is not None and total.modelled_energy_j is not None:
        parts = [f"{energy(total.modelled_energy_j)} of CPU and RAM, not in the measured energy"]
        yield "modelled", " · ".join([*parts, *sentences.worth(total, report.cost, modelled=True)])
    yield from sentences.quality(report)
    yield from more
    labels = [
        label for label, tariff in (("carbon", report.carbon), ("cost", report.cost)) if tariff
    ]
    yield from zip(labels, sentences.tariffs(report), strict=True)
