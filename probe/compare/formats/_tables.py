"""What every format of a comparison shows: an answer, tables, remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...model import Provenance
from ...report.numbers import number
from ...report.sentences import short
from ...report.text_tables import Table, between, joules, mebibytes, percent, seconds
from ..gain import Gain, Verdict
from ..model import FOUR_NAMES, Cell, ComparedSide, Comparison, ComparisonReport, ScalingRow
from ..phase_classes import NOT_SEPARATED
from ..statistics import FEWEST_RUNS
from ._answer import answer
from ._phase_tables import phase_tables
from ._remarks import remarks

_LONGEST = 100
_NEGLIGIBLE = 1e-5  # of the whole run


@dataclass(frozen=True, slots=True)
class Part:
    """One other side: the answer, how it was found, the tables, remarks."""

    answer: str
    verdict: Verdict
    basis: str
    tables: Sequence[Table]
    remarks: Sequence[str]


def parts(report: ComparisonReport) -> list[Part]:
    """One part for every other side."""
    return [_part(report, comparison) for comparison in report.comparisons]


def _part(report: ComparisonReport, comparison: Comparison) -> Part:
    tables = phase_tables(report, comparison)
    cells = _cells(comparison)
    if cells.rows:
        tables.append(cells)
    if comparison.four:
        tables.append(_four(comparison))
    if comparison.techniques:
        tables.append(_techniques(comparison))
    tables.append(_totals(comparison))
    if comparison.scaling:
        tables.append(_scaling(comparison.scaling))
    if comparison.memory_bytes.components:
        tables.append(_memory(comparison))
    return Part(
        answer(report, comparison),
        comparison.verdict,
        _basis(report, comparison),
        tables,
        remarks(report, comparison),
    )


def _basis(report: ComparisonReport, comparison: Comparison) -> str:
    """What was compared with what, in one line."""
    target = report.target
    sides = f"{_runs(report.base)} and {_runs(comparison.other)}"
    pairs = ", paired by seed" if comparison.paired else ""
    if target is None:
        work = f"the same work, counted in {report.unit}"
    else:
        work = f"until {target.metric} {target.direction} {number(target.value)}"
    why = f": {short(comparison.reason, 3 * _LONGEST)}" if comparison.reason else ""
    return f"{comparison.verdict}{why} ({sides}{pairs}; {work}; positive numbers are saved)"


def _runs(side: ComparedSide) -> str:
    count = len(side.ids)
    return f"{count} run{'s' if count > 1 else ''} of {short(side.name, _LONGEST)}"


def _totals(comparison: Comparison) -> Table:
    quantities: list[tuple[str, Gain, Callable[[float | None], str]]] = [
        ("time", comparison.time_s, seconds),
        ("energy", comparison.energy_j, joules),
        ("peak memory", comparison.memory_bytes, mebibytes),
    ]
    # Fewer samples or cheaper samples: only where both sides need not train on as many.
    is_divided = any(gain.progress for _, gain, _ in quantities)
    rows = []
    for name, gain, word in quantities:
        is_modelled = name == "energy" and comparison.energy_j.provenance is Provenance.MODELLED
        if gain.gain is None and gain.bound is None:
            if name != "peak memory":
                silent = name == "energy" and comparison.energy_j.provenance is None
                rows.append([name, "—", "—", "not measured" if silent else "not known"])
            continue
        saved = (
            word(gain.gain) if gain.bound is None else f"{gain.bound.is_} {word(gain.bound.gain)}"
        )
        row = [
            f"{name} (modelled)" if is_modelled else name,
            word(gain.base),
            word(gain.other),
            saved,
            percent(gain.percent),
            "" if is_modelled else _interval(comparison, gain, word),
        ]
        if is_divided:
            row += [word(part) if gain.progress else "" for part in (gain.progress, gain.cost)]
        rows.append([*row, "modelled: no verdict" if is_modelled else _verdicts(gain)])
    head = ["", "base", "other", "saved", "", "95 % interval"]
    head += ["by fewer samples", "by cheaper samples"] if is_divided else []
    head.append("verdict")
    full = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    return Table("the whole run", head, full, frozenset({0, len(head) - 1}))


def _interval(comparison: Comparison, gain: Gain, word: Callable[[float | None], str]) -> str:
    if gain.interval is not None:
        return between(gain.interval, word)
    if gain.bound is not None:
        return ""
    return "one run: no interval" if comparison.runs < FEWEST_RUNS else "the same in every run"


def _verdicts(gain: Gain) -> str:
    """The verdict, and those of fewer and of cheaper samples where they differ from it."""
    words = [str(gain.verdict)]
    for verdict, what in (
        (gain.progress_verdict, "by fewer samples"),
        (gain.cost_verdict, "by cheaper samples"),
    ):
        if verdict not in (Verdict.NO_EVIDENCE, gain.verdict):
            words.append(f"{verdict} {what}")
    return ", ".join(words)


def _cells(comparison: Comparison) -> Table:
    """By energy where it was measured, else by time."""
    measured = comparison.energy_j.provenance is Provenance.MEASURED
    cells = [cell for cell in comparison.cells if not _is_negligible(comparison, cell)]
    is_divided = any(cell.progress_j for cell in cells) and measured
    head = ["stage", "class", "phases", "time"]
    head += ["energy", "95 % interval"] if measured else ["95 % interval"]
    head += ["by fewer samples", "by cheaper samples"] if is_divided else []
    rows = []
    for cell in cells:
        row = [cell.stage, cell.class_, ", ".join(cell.phases), seconds(cell.time_s)]
        if measured:
            row += [joules(cell.energy_j), between(cell.energy_j_interval, joules)]
        else:
            row.append(between(cell.time_s_interval, seconds))
        if is_divided:
            row += [
                joules(part) if cell.progress_j else "" for part in (cell.progress_j, cell.cost_j)
            ]
        share = percent(100 * cell.share) if cell.share is not None else ""
        rows.append([*row, share, _status(cell, cell.verdict if measured else cell.time_verdict)])
    return Table(
        "saved by stage and class of work",
        [*head, "share", "verdict"],
        rows,
        frozenset({0, 1, 2, len(head) + 1}),
        optional=[2],
    )


def _is_negligible(comparison: Comparison, cell: Cell) -> bool:
    """Whether a cell says nothing: no time and no energy worth a digit."""
    least_s = _NEGLIGIBLE * abs(comparison.time_s.base or 0.0)
    least_j = _NEGLIGIBLE * abs(comparison.energy_j.base or 0.0)
    of_time = [cell.time_s, *(cell.time_s_interval or ())]
    of_energy = [cell.energy_j or 0.0, *(cell.energy_j_interval or ()), *(cell.bounds_j or ())]
    return all(abs(value) <= least_s for value in of_time) and all(
        abs(value) <= least_j for value in of_energy
    )


def _status(cell: Cell, verdict: Verdict) -> str:
    if cell.provenance is not Provenance.ESTIMATED:
        return str(verdict)
    if cell.bounds_j:
        return f"cannot be told apart, bounds {between(cell.bounds_j, joules)}"
    missing = f"; without {', '.join(cell.refused)}" if cell.refused else ""
    return f"{verdict}{missing}"


def _four(comparison: Comparison) -> Table:
    rows = []
    for name, share in (comparison.four or {}).items():
        limits = (comparison.four_intervals or {}).get(name)
        if share is None:
            rows.append([FOUR_NAMES[name], NOT_SEPARATED, ""])
            continue
        interval = between([100 * end for end in limits], percent) if limits else "no interval"
        shown = [percent(100 * share), interval] if share else ["none", ""]
        rows.append([FOUR_NAMES[name], *shown])
    rows += [
        [f"  of it {name}", percent(100 * share), ""]
        for name, share in (comparison.four_rest or {}).items()
        if share
    ]
    return Table(
        f"the {comparison.verdict} in {comparison.four_of} by kind of phase",
        ["", "share", "95 % interval"],
        rows,
    )


def _techniques(comparison: Comparison) -> Table:
    def word(settings: str | None) -> str:
        return "—" if settings is None else short(settings, _LONGEST) or "on"

    return Table(
        "techniques that differ (`probe ablate` measures what each one saves)",
        ["technique", "base", "other"],
        [[row.technique, word(row.base), word(row.other)] for row in comparison.techniques],
        frozenset({0, 1, 2}),
    )


def _memory(comparison: Comparison) -> Table:
    rows = [
        [row.component, mebibytes(row.base), mebibytes(row.other)]
        for row in comparison.memory_bytes.components
    ]
    return Table("memory at each side's peak", ["", "base", "other"], rows)


def _scaling(rows: Sequence[ScalingRow]) -> Table:
    unit = rows[0].unit
    return Table(
        "scaling over ranks",
        [
            "ranks",
            "runs",
            "throughput",
            "efficiency",
            f"energy per {unit.removesuffix('s')}",
            "communication",
        ],
        [
            [
                str(row.ranks),
                str(row.runs),
                f"{number(row.throughput)} {unit}/s",
                percent(100 * row.efficiency),
                "not measured"
                if row.energy_per_sample_j is None
                else joules(row.energy_per_sample_j),
                percent(100 * row.communication)
                if row.communication is not None
                else "—"
                if row.ranks == 1
                else "inside other phases",
            ]
            for row in rows
        ],
    )
