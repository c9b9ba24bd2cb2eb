"""The rows of ``phases`` and ``groups`` of one device; the rows add up to its energy.

Where the counter allows it the estimator speaks. Else phases share each interval by time,
with hard bounds, and are stated only if those are narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..attribution.bounds import bounds
from ..attribution.columns import CROWD, UNATTRIBUTED
from ..attribution.estimate import Estimate, PhaseEstimate, estimate
from ..attribution.identifiability import RESOLVED_HALF, WEAK_HALF
from ..attribution.regression.statistics import Statistics
from ..attribution.time_split import PhaseEnergy, TimeShares
from ..model import Phase, Provenance, Status
from ..report.model import GroupRow, PhaseRow, SensorFit, SensorResponse
from ..timeline.phase_totals import PhaseTotals
from ..units import NS_PER_S
from . import sensor_response
from .device_energy import DeviceEnergy, energy_of, total_interval
from .phase_groups import PhasePart, group_rows, lock_warnings, phase_name

Run = tuple[int, int]
_LONG_PERIODS = 3  # a visit that lasts so many update periods is measured
_MANY_VISITS = 20


@dataclass(slots=True)
class PhaseRows:
    """Rows of ``phases`` and ``groups`` in the report, and the warnings that go with them."""

    phases: list[PhaseRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    response: SensorResponse | None = None  # of the meter, where the estimator was asked
    fit: SensorFit | None = None
    sensor_note: str = ""
    sampling_error_j: float = 0.0  # of the meter's total, if it looks at a part of the time only

    def __iadd__(self, more: PhaseRows) -> PhaseRows:
        self.phases += more.phases
        self.groups += more.groups
        self.warnings += more.warnings
        self.sampling_error_j += more.sampling_error_j
        return self


def row(
    phase: str,
    device: str,
    count: int,
    time_s: float,
    energy_j: float | None,
    interval: tuple[float, float] | None,
    status: Status,
    provenance: Provenance,
    bounds_j: tuple[float, float] | None = None,
) -> PhaseRow:
    """One row of ``phases`` in the report; times in s, energies in J."""
    power = energy_j / time_s if energy_j is not None and time_s > 0 else None
    return PhaseRow(
        phase=phase,
        device=device,
        count=count,
        time_s=time_s,
        energy_j=energy_j,
        energy_j_interval=interval,
        power_w=power,
        status=status,
        bounds_j=bounds_j,
        provenance=provenance,
    )


def phase_rows(
    device: DeviceEnergy,
    phases: PhaseTotals | None,
    run: Run,
    label: str,
    shares: TimeShares | None,
    statistics: Statistics | None,
) -> PhaseRows:
    """Rows of one device.

    Args:
        phases: of the one rank that the device belongs to; None if there is none.
        shares: of that rank's phases by time; None if there are none.
        statistics: of its counter and that rank's spans; None if there are none.
    """
    rows = PhaseRows()
    if device.curve is None:
        return rows
    total = energy_of(device.curve, run)
    if phases is None or shares is None:
        rows.phases.append(_whole(device, run, label, total))
        return rows
    by_time = shares.bounded(device.highest_w)
    if device.source.provenance is Provenance.MODELLED:
        rows.phases = _modelled(by_time, phases, label, total)
        return rows
    seconds = {code: part.time_ns / 1e9 for code, part in by_time.items()}
    estimated = estimate(statistics, total, seconds) if statistics is not None else None
    if estimated is not None:
        parts = _estimated(estimated, by_time, device.highest_w, phases.counts)
        rows.groups = group_rows(estimated, parts, phases, label)
        rows.warnings = lock_warnings(estimated, phases, label)
        rows.response = sensor_response.response_row(estimated)
        rows.fit = sensor_response.fit_row(estimated)
        rows.sensor_note = sensor_response.note(estimated)
        rows.sampling_error_j = sensor_response.sampling_error_j(estimated)
        if (line := sensor_response.fit_warning(estimated, label)) is not None:
            rows.warnings.append(line)
        refused = _together(estimated, parts, total_interval(device, run))
    else:
        rows.sensor_note = sensor_response.note_unsolved(statistics)
        parts = [_by_time(part) for part in by_time.values()]
        refused = _remainder(parts, total_interval(device, run))
    rows.phases = _rows(parts, refused, phases, label, total)
    return rows


def _whole(device: DeviceEnergy, run: Run, label: str, total: float) -> PhaseRow:
    """The one row of a device that no rank's phases explain."""
    provenance = device.source.provenance
    interval = None if provenance is Provenance.MODELLED else total_interval(device, run)
    return row(
        str(Phase.UNATTRIBUTED),
        label,
        1,
        (run[1] - run[0]) / 1e9,
        total,
        interval,
        Status.RESOLVED,
        provenance,
    )


def _modelled(
    by_time: Mapping[int, PhaseEnergy], phases: PhaseTotals, label: str, total: float
) -> list[PhaseRow]:
    """A model's joules by time: no interval, no status worth the name."""
    rows: list[PhaseRow] = []
    for code, part in by_time.items():
        energy = part.energy_j
        if code == UNATTRIBUTED:
            energy = total - math.fsum(r.energy_j for r in rows if r.energy_j is not None)
        rows.append(
            row(
                phase_name(code, phases),
                label,
                phases.counts.get(code, 1),
                part.time_ns / 1e9,
                energy,
                None,
                Status.WEAK,
                Provenance.MODELLED,
            )
        )
    return rows


def _by_time(part: PhaseEnergy) -> PhasePart:
    """A share by time, with the status that its bounds allow."""
    half = (part.high_j - part.low_j) / 2
    status = Status.NOT_IDENTIFIABLE
    if part.energy_j > 0 and half <= WEAK_HALF * part.energy_j:
        status = Status.RESOLVED if half <= RESOLVED_HALF * part.energy_j else Status.WEAK
    share = PhaseEstimate(part.energy_j, part.low_j, part.high_j, status)
    return PhasePart(part.code, part.time_ns / 1e9, share, (part.low_j, part.high_j))


def _estimated(
    estimated: Estimate,
    by_time: Mapping[int, PhaseEnergy],
    highest_w: float,
    counts: Mapping[int, int],
) -> list[PhasePart]:
    parts = []
    for code, part in by_time.items():
        seconds = part.time_ns / 1e9
        hard = part.low_j, part.high_j
        if code not in estimated.codes:
            energy = PhaseEstimate(part.energy_j, *hard, Status.NOT_IDENTIFIABLE, "columns")
        else:
            energy = _with_visits(estimated, estimated.of(code), part, counts.get(code, 0))
            if energy.status is Status.NOT_IDENTIFIABLE and energy.why != "fit":
                linear = bounds(estimated, code, highest_w)
                if linear is not None:
                    least, most = max(hard[0], linear[0]), min(hard[1], linear[1])
                    hard = (least, most) if least <= most else hard
        parts.append(PhasePart(code, seconds, energy, hard))
    return parts


def _with_visits(
    estimated: Estimate, energy: PhaseEstimate, by_time: PhaseEnergy, visits: int
) -> PhaseEstimate:
    """A phase whose visits last several update periods is measured, not only regressed.

    What the counter says between the borders of a visit is its energy to one period's power at
    each end, whatever the sensor's response, as long as it answers within a period. Of few visits
    the spread over blocks of the run says nothing; of many the regression knows more.
    """
    seconds = by_time.time_ns / NS_PER_S
    about = estimated.statistics
    if (
        estimated.solution.windowed
        or not visits
        or seconds < _LONG_PERIODS * about.period_s * visits
    ):
        return energy
    if visits >= _MANY_VISITS and energy.status is Status.RESOLVED:
        return energy
    response = estimated.solution.response
    end_s = max(about.period_s, abs(response.delay_s) + response.tau_s + response.window_s)
    half = 2 * visits * end_s * by_time.energy_j / seconds
    low, high = by_time.energy_j - half, by_time.energy_j + half
    within = low <= energy.energy_j <= high
    if not within or half > RESOLVED_HALF * by_time.energy_j or energy.why == "locked":
        return energy
    if energy.status is Status.RESOLVED:
        low, high = min(low, energy.low_j), max(high, energy.high_j)
    return PhaseEstimate(energy.energy_j, low, high, Status.RESOLVED)


def _remainder(parts: Sequence[PhasePart], total: tuple[float, float]) -> PhaseEstimate | None:
    """What refused phases have used together: no more than they can, no less than is left."""
    refused = [p.energy for p in parts if p.energy.status is Status.NOT_IDENTIFIABLE]
    stated = [p.energy for p in parts if p.energy.status is not Status.NOT_IDENTIFIABLE]
    if not refused:
        return None
    low = max(math.fsum(k.low_j for k in refused), total[0] - math.fsum(k.high_j for k in stated))
    high = min(math.fsum(k.high_j for k in refused), total[1] - math.fsum(k.low_j for k in stated))
    energy = math.fsum(k.energy_j for k in refused)
    return PhaseEstimate(energy, min(low, energy), max(high, energy), Status.WEAK)


def _together(
    estimated: Estimate, parts: Sequence[PhasePart], total: tuple[float, float]
) -> PhaseEstimate | None:
    """The joint energy of what is refused: often well known though its parts are not."""
    refused = [p for p in parts if p.energy.status is Status.NOT_IDENTIFIABLE]
    if not refused:
        return None
    codes = [p.code for p in refused if p.code in estimated.codes]
    if any(p.code not in estimated.codes for p in refused) and CROWD in estimated.codes:
        codes.append(CROWD)
    return estimated.of(*codes) if codes else _remainder(parts, total)


def _rows(
    parts: Sequence[PhasePart],
    refused: PhaseEstimate | None,
    phases: PhaseTotals,
    label: str,
    total: float,
) -> list[PhaseRow]:
    rows = []
    for part in sorted(parts, key=lambda p: p.code == UNATTRIBUTED):
        energy_of_phase = part.energy
        stated = energy_of_phase.status is not Status.NOT_IDENTIFIABLE
        rows.append(
            row(
                phase_name(part.code, phases),
                label,
                phases.counts.get(part.code, 1),
                part.seconds,
                energy_of_phase.energy_j if stated else None,
                (max(0.0, energy_of_phase.low_j), min(total, energy_of_phase.high_j))
                if stated
                else None,
                energy_of_phase.status,
                Provenance.ESTIMATED,
                None if stated else (max(0.0, part.bounds_j[0]), min(total, part.bounds_j[1])),
            )
        )
    if refused is None:
        return rows
    # What the account still misses is what was refused.
    energy = total - math.fsum(r.energy_j for r in rows if r.energy_j is not None)
    half = max(refused.high_j - refused.energy_j, refused.energy_j - refused.low_j)
    narrow = energy > 0 and half <= RESOLVED_HALF * energy
    seconds = math.fsum(p.seconds for p in parts if p.energy.status is Status.NOT_IDENTIFIABLE)
    rows.append(
        row(
            str(Phase.UNRESOLVED),
            label,
            1,
            seconds,
            energy,
            (max(0.0, energy - half), min(total, energy + half)),
            Status.RESOLVED if narrow else Status.WEAK,
            Provenance.ESTIMATED,
        )
    )
    return rows
