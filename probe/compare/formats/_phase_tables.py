"""The first tables of a comparison: what a sample costs, phase by phase, in joules and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...model import Phase, Provenance
from ...report.numbers import number, scaled
from ...report.text_tables import Table, percent
from ..gain import Interval, Verdict
from ..model import Comparison, ComparisonReport, PhaseGain
from ..statistics import FEWEST_RUNS
from ._answer import unit_of

_MODELLED, _NOT_APART = "modelled: no verdict", "cannot be told apart"
_NEGLIGIBLE = 1e-5  # of the whole


@dataclass(frozen=True, slots=True)
class _Line:
    """A phase's seconds or joules, in the unit of its table."""

    phase: str
    base: float
    other: float
    gain: float
    interval: Interval | None
    share: float | None
    verdict: str

    def cells(self) -> list[str]:
        """The row as text: amounts with three digits, the gain with two of its uncertainty."""
        between, half = "", None
        if self.interval is not None:
            half = (self.interval[1] - self.interval[0]) / 2 / 10
            between = " … ".join(_signed(end, half) for end in self.interval)
        share = "" if self.share is None else percent(100 * self.share)
        sides = [_signed(amount, None) for amount in (self.base, self.other)]
        return [self.phase, *sides, _signed(self.gain, half), between, share, self.verdict]


def phase_tables(report: ComparisonReport, comparison: Comparison) -> list[Table]:
    """Energy where there is any, then time; the one on which the verdict rests comes first."""
    rows = [*comparison.phases, comparison.per_sample]
    tables = [_table(report, comparison, _time_lines(comparison, rows), "time", "s")]
    if comparison.energy_j.provenance is not None:
        energy = _table(report, comparison, _energy_lines(rows), "energy", "J")
        tables.insert(0 if comparison.verdict_by == "energy" else 1, energy)
    return tables


def _energy_lines(rows: Sequence[PhaseGain]) -> list[_Line]:
    """Without the phases whose energy cannot be told apart: they stand together in one line."""
    refused = [row.phase for row in rows if row.gain_j is None]
    lines = []
    for row in rows:
        if row.gain_j is None:
            continue
        verdict, share, phase = str(row.verdict), row.share, row.phase
        if row.provenance is Provenance.MODELLED:
            verdict, share = _MODELLED, None
        elif phase == Phase.UNRESOLVED:
            verdict = _NOT_APART
            phase = _together(refused) or phase
        lines.append(
            _Line(
                phase,
                row.base.energy_j or 0.0,
                row.other.energy_j or 0.0,
                row.gain_j,
                row.gain_j_interval,
                share,
                verdict,
            )
        )
    return lines


def _together(refused: Sequence[str]) -> str:
    return refused[0] if len(refused) == 1 else f"{', '.join(refused)} together" if refused else ""


def _time_lines(comparison: Comparison, rows: Sequence[PhaseGain]) -> list[_Line]:
    by_time = comparison.verdict_by == "time"
    return [
        _Line(
            row.phase,
            row.base.time_s,
            row.other.time_s,
            row.gain_s,
            row.gain_s_interval,
            row.share if by_time else None,
            str(row.time_verdict),
        )
        for row in rows
        if row.phase != Phase.UNRESOLVED
    ]


def _table(
    report: ComparisonReport,
    comparison: Comparison,
    lines: Sequence[_Line],
    quantity: str,
    unit: str,
) -> Table:
    total = max(abs(lines[-1].base), abs(lines[-1].other))
    scale, prefix = scaled(total)
    shown = [line for line in lines if line is lines[-1] or not _is_negligible(line, total)]
    head = ["phase", "base", "other", "saved", "95 % interval", "share", "verdict"]
    cells = [_scaled(line, scale).cells() for line in shown]
    has_intervals = any(row[4] for row in cells)
    # A column that says nothing in any row is left out.
    kept = [at for at in range(len(head)) if at not in (4, 5) or any(row[at] for row in cells)]
    if not has_intervals and all(line.verdict == Verdict.NO_EVIDENCE for line in shown):
        kept.remove(6)
    title = f"{quantity} per {unit_of(report)} by phase, in {prefix}{unit}"
    if comparison.runs < FEWEST_RUNS:
        title += " (one run: no interval)"
    return Table(
        title,
        [head[at] for at in kept],
        [[row[at] for at in kept] for row in cells],
        frozenset(new for new, at in enumerate(kept) if at in (0, 6)),
        optional=[new for new, at in enumerate(kept) if at == 5],
        marks=[_mark(line, is_total=line is lines[-1]) for line in shown],
    )


def _mark(line: _Line, *, is_total: bool) -> str:
    if line.verdict == _MODELLED:
        return "modelled"
    if line.verdict == _NOT_APART:
        return "refused"
    return "total" if is_total else ""


def _scaled(line: _Line, scale: float) -> _Line:
    interval = None
    if line.interval is not None:
        interval = line.interval[0] / scale, line.interval[1] / scale
    return replace(
        line,
        base=line.base / scale,
        other=line.other / scale,
        gain=line.gain / scale,
        interval=interval,
    )


def _is_negligible(line: _Line, total: float) -> bool:
    amounts = [line.base, line.other, *(line.interval or ())]
    return all(abs(amount) <= _NEGLIGIBLE * total for amount in amounts)


def _signed(value: float, half: float | None) -> str:
    return number(value, half).replace("-", "−")
