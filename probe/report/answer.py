"""The first lines of a report, the same in every format: the answer, the total, the worst limit."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Phase, Status
from ..simulated_card import WORD
from .all_devices import (
    METERED,
    MODELLED,
    DevicePhases,
    all_devices,
    energy_of,
    in_threads,
    time_share_of,
)
from .model import PhaseRow, Report
from .numbers import duration, energy, energy_with_error, share, share_with_error
from .sentences import short, worth
from .text_tables import unique

_MATTERS = 0.1  # share of the energy, or of the run, whose lack limits the answer
_MOST_NAMES = 3
_FIRST_S = 90.0  # of a live run: by then a lone rank's phases can usually be separated
_LONGEST = 300  # characters of a reason

_NOT_TRAINING = (Phase.OTHER, Phase.RESTART)


@dataclass(frozen=True, slots=True)
class Answer:
    """Which phase takes how much, how sure that is, and what all of it used.

    Attributes:
        headline: the answer ("backward takes 54 ± 2 % of the energy"), or why there is none.
        used: total, per step, per sample, CO2e, cost.
        limit: the one worst reason to doubt the answer; empty without any.
        phase: the phase of the headline; empty if it names none.
    """

    headline: str
    used: str
    limit: str = ""
    phase: str = ""

    def states(self, note: str) -> bool:
        """Whether ``limit`` is this note, so that it need not be shown again."""
        return self.limit == note or self.limit.startswith(f"{note} (")

    @property
    def lines(self) -> list[str]:
        """Two or three lines of text."""
        return [line for line in (self.headline, self.used, self.limit) if line]


def answer(report: Report) -> Answer:
    """The first lines of a report of a run."""
    tables = all_devices(report)
    metered = next((table for table in tables if table.kind == METERED), None)
    phase, headline = _headline(report, tables, metered)
    used = _used(report)
    if report.run.simulated:
        headline, used = f"{WORD}: {headline}", f"{WORD}: {used}"
    return Answer(headline, used, _limit(report, metered), phase)


def largest(report: Report) -> tuple[str, float, str] | None:
    """The phase of the headline, its share (0 to 1), and of what: "energy" or "time".

    None where no phase was recorded, or nothing is known of any.
    """
    tables = all_devices(report)
    row = _largest(next((table for table in tables if table.kind == METERED), None))
    if row is not None and row.energy_share is not None:
        return row.phase, row.energy_share, "energy"
    row = _longest(tables)
    return None if row is None or row.time_share is None else (row.phase, row.time_share, "time")


def _headline(
    report: Report, tables: list[DevicePhases], metered: DevicePhases | None
) -> tuple[str, str]:
    if report.run.note:
        return "", report.run.note
    largest = _largest(metered)
    if metered is not None and largest is not None:
        return largest.phase, _of_the_energy(metered, largest, live=not report.final)
    longest = _longest(tables)
    by_time = "" if longest is None else _by_time(longest)
    if metered is not None or report.total.energy_j is not None:
        reason = _no_phase_is_known(report, metered)
        phase = "" if longest is None else longest.phase
        return phase, f"{reason}; {by_time}" if by_time else reason
    if any(source.shared for source in report.sources):
        reason = "other trainings used the meter's device: energy is the group's"
    else:
        reason = "no energy meter"
    if longest is None:
        return "", f"{reason}, and no phase was recorded"
    return longest.phase, f"{by_time}; {reason}"


def _of_the_energy(table: DevicePhases, row: PhaseRow, *, live: bool) -> str:
    where = "of the energy" + (" so far" if live else "")
    part = f"{row.phase} takes {_share(table, row)} {where}"
    if row.phase == Phase.OTHER:
        part = f"{_share(table, row)} {where} is used outside the phases"
    if row.status is Status.WEAK:
        part += " (weak: a rough figure)"
    return part


def _by_time(row: PhaseRow) -> str:
    part = f"{share(row.time_share)} of the time"
    if row.phase == Phase.OTHER:
        return f"{part} is spent outside the phases"
    return f"{row.phase} takes {part}"


def _share(table: DevicePhases, row: PhaseRow) -> str:
    if row.energy_share is None:
        return "—"
    if row.energy_j_interval is None or not table.energy_j:
        return share(row.energy_share)
    low, high = (min(1.0, limit / table.energy_j) for limit in row.energy_j_interval)
    return share_with_error(row.energy_share, max(0.0, low), high)


def _largest(table: DevicePhases | None) -> PhaseRow | None:
    """The phase that is known to take most; ``other`` or ``restart`` only if nothing else is."""
    if table is None:
        return None
    attributed = [row for row in table.named if row.energy_j is not None and row.energy_share]
    phases = [row for row in attributed if row.phase not in _NOT_TRAINING] or attributed
    return max(phases, key=energy_of, default=None)


def _longest(tables: list[DevicePhases]) -> PhaseRow | None:
    rows = [row for row in (tables[0].named if tables else ()) if row.time_share]
    phases = [row for row in rows if row.phase not in _NOT_TRAINING] or rows
    return max(phases, key=time_share_of, default=None)


def _no_phase_is_known(report: Report, metered: DevicePhases | None) -> str:
    """Why no phase has a number, in the words of a reader."""
    misfit = _misfit(report)
    if misfit:
        return f"no phase's energy is known: {misfit}"
    if metered is None or not metered.named:
        if in_threads(report):
            reason = "several threads used the meters' devices at the same time"
        elif not report.final:
            if report.run.ranks == 1 and report.run.duration_s < _FIRST_S:
                return "energy by phase comes after about a minute of recording"
            return "no phase's energy is known yet"
        else:
            reason = "no meter's device belongs to one rank alone"
        return f"no phase's energy is known: {reason}"
    refused = _refused(metered)
    return f"the meters cannot separate {_names(refused)}" if refused else "no phase used energy"


def _refused(table: DevicePhases) -> list[str]:
    """The phases that have no number; ``other`` only if it alone has none."""
    names = [row.phase for row in table.named if row.energy_j is None]
    return [name for name in names if name != Phase.OTHER] or names


def _names(phases: list[str]) -> str:
    shown = phases[:_MOST_NAMES]
    more = len(phases) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _used(report: Report) -> str:
    total = report.total
    if total.energy_j is not None:
        low, high = total.energy_j_interval or (total.energy_j, total.energy_j)
        parts = [energy_with_error(total.energy_j, (high - low) / 2)]
        joules, modelled = total.energy_j, False
    elif total.modelled_energy_j is not None:
        parts = [f"{energy(total.modelled_energy_j)} by a model of {_modelled(report)}, no meter"]
        joules, modelled = total.modelled_energy_j, True
    else:
        return _time(report)
    parts += _each(report, joules)
    parts += worth(total, report.cost, modelled=modelled)
    return " · ".join(parts)


def _modelled(report: Report) -> str:
    kinds = {"cpu": "CPU", "ram": "RAM"}
    names = [s.device.rpartition("/")[2] for s in report.sources if s.is_modelled]
    return " and ".join(unique(kinds.get(name, name) for name in names)) or "the machine"


def _time(report: Report) -> str:
    run = report.run
    parts = [f"{duration(run.duration_s)} in all"]
    if run.step_s:
        parts.append(f"{duration(run.step_s)} per step (median)")
    return " · ".join(parts)


def _each(report: Report, joules: float) -> list[str]:
    """Joules per sample or token, and per step: all of the run's energy, by what it did."""
    parts = []
    for name, unit in (("samples", "sample"), ("tokens", "token")):
        value = report.values.get(name)
        if value is not None and value.sum:
            parts.append(f"{energy(joules / value.sum)} per {unit}")
    if report.run.steps:
        parts.append(f"{energy(joules / report.run.steps)} per step")
    return parts


def _limit(report: Report, metered: DevicePhases | None) -> str:
    notes = [line for line in report.warnings if line != report.run.note]
    worst = _worst(report, metered, notes)
    if not worst:
        return ""
    following = len([line for line in notes if line != worst])
    worst = short(worst, _LONGEST)
    if following:
        worst += f" ({following} more {'note' if following == 1 else 'notes'})"
    return worst


def _worst(report: Report, metered: DevicePhases | None, notes: list[str]) -> str:
    """The first of the reasons that holds; they are ordered by how much they hide."""
    run, coverage = report.run, report.total.coverage
    misfit = _misfit(report)
    if metered is not None and misfit:
        return misfit
    if run.status in ("killed", "lost"):
        return f"the run was {run.status}: what came after its last record is missing"
    if coverage is not None and coverage < 1 - _MATTERS and metered is not None:
        return f"the meters saw {share(coverage)} of the run; the rest is extrapolated"
    if metered is not None and metered.not_told_apart_share > _MATTERS:
        refused = _refused(metered)
        if refused and _largest(metered) is not None:
            return (
                f"{share(metered.not_told_apart_share)} of the energy cannot be separated: "
                f"{_names(refused)} have bounds only"
            )
    return notes[0] if notes else ""


def _misfit(report: Report) -> str:
    """Of the first meter whose readings are not those of any sensor that we know."""
    for source in report.sources:
        fit = source.fit
        if source.in_total and fit is not None and not fit.ok:
            for line in report.warnings:
                if line.startswith(f"{source.device}: ") and fit.remedy and fit.remedy in line:
                    return line
            text = f"{source.device}: its readings are not those of a sensor that we know"
            return f"{text}; {fit.remedy}" if fit.remedy else text
    return ""


def shares_line(report: Report) -> str:
    """Every phase's share in one line, the largest first; of time where energy is not known."""
    tables = all_devices(report)
    if not tables or not tables[0].named:
        return "no phase was recorded"
    table = tables[0]
    attributed = [row for row in table.named if row.energy_share]
    if table.kind != MODELLED and attributed:
        rows = sorted(attributed, key=energy_of, reverse=True)
        parts = [f"{row.phase} {_share(table, row)}" for row in rows]
        if table.not_told_apart_share:
            parts.append(f"not separated {share(table.not_told_apart_share)}")
        return "energy: " + ", ".join(parts)
    rows = sorted(table.named, key=time_share_of, reverse=True)
    return "time: " + ", ".join(f"{row.phase} {share(row.time_share)}" for row in rows)
