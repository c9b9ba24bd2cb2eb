"""Time and energy of a run over its steps, for experiment trackers.

No meter resolves one step. A row therefore covers the steps since the row before, over at least
some updates of the meters, and its values per step are means over those. Without a meter there is
the time, of as many steps as trackers show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from probe.analysis.open import open_analyses
from probe.attribution.meter.energy_curve import EnergyCurve
from probe.model import Provenance
from probe.timeline.rank_timeline import Timeline, timeline
from probe.units import J_PER_KWH, NS_PER_S

from .run import StoredRun

MOST_ROWS = 1000
MOST_PHASES = 64  # names with a counter in them must not flood a tracker
OTHERS = "(others)"
_FEWEST_UPDATES = 5  # of a meter between two rows; a model's power has no noise of reading

Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """Figures by name after ``step`` steps, at ``wall_s`` since 1970."""

    step: int
    wall_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Curve:
    """Energy of a device over time.

    The clock of the job is ``ahead_ns`` ahead of that of the device's host, on which the host
    recorded from ``run[0]`` to ``run[1]``.
    """

    energy: EnergyCurve
    ahead_ns: int
    run: tuple[int, int]

    def at(self, at_ns: Times) -> Floats:
        """Joules until some instants (n,) on the job's clock; none after the host's end."""
        own_ns = np.clip(at_ns - self.ahead_ns, *self.run)
        return np.asarray(self.energy.at(own_ns), np.float64)


def step_rows(run: StoredRun) -> list[Row]:
    """The rows of a run; none if its first rank closed no step."""
    reader = run.reader
    ranks = reader.ranks()
    host = timeline(reader, ranks[0]) if ranks else None
    if host is None or not len(host.step_ns):
        return []
    closed_ns = np.sort(host.step_ns)
    measured, modelled = _curves(run)
    shortest_ns = max(
        _shortest_s(measured, modelled) * NS_PER_S,
        float(closed_ns[-1] - reader.begin_ns) / MOST_ROWS,
        1.0,
    )
    last = _spaced(closed_ns, reader.begin_ns, shortest_ns)  # index of each row's last step
    if not len(last):
        return []
    at_ns = np.concatenate([[reader.begin_ns], closed_ns[last]])
    steps = np.diff(last + 1, prepend=0)
    columns = dict(_times(host, at_ns, steps))
    if measured:
        columns |= _energies(run, measured, at_ns, steps)
    if modelled:
        columns |= _modelled_energies(modelled, at_ns)
    return [
        Row(
            step + 1,
            run.anchor.wall_of(int(at_ns[place + 1])).timestamp(),
            {
                name: float(values[place])
                for name, values in columns.items()
                if np.isfinite(values[place])
            },
        )
        for place, step in enumerate(last.tolist())
    ]


def _curves(run: StoredRun) -> tuple[list[_Curve], list[_Curve]]:
    """Energy over time of all that is measured, and of all that is modelled."""
    measured, modelled = [], []
    for analysis in open_analyses(run.path):
        for device in analysis.devices:
            if device.curve is None:
                continue
            curve = _Curve(device.curve, analysis.reader.ahead_ns, analysis.run)
            if device.source.in_total:
                measured.append(curve)
            elif device.source.provenance is Provenance.MODELLED:
                modelled.append(curve)
    return measured, modelled


def _shortest_s(measured: list[_Curve], modelled: list[_Curve]) -> float:
    """Time that a row covers at least. Where something is measured, its meters decide."""
    if measured:
        return _FEWEST_UPDATES * max(curve.energy.period_s for curve in measured)
    return max((curve.energy.period_s for curve in modelled), default=0.0)


def _spaced(closed_ns: Times, begin_ns: int, shortest_ns: float) -> Times:
    """Places of instants that are at least so far from each other and the begin."""
    cell = ((closed_ns - begin_ns) / shortest_ns).astype(np.int64)
    first = np.flatnonzero(np.diff(cell, prepend=0) > 0)
    keep = np.diff(closed_ns[first], prepend=begin_ns) > 0.5 * shortest_ns
    return first[keep]


def _times(host: Timeline, at_ns: Times, steps: Times) -> Iterator[tuple[str, Floats]]:
    """Seconds per step between instants (n + 1,): in all, and in the phases that took longest."""
    yield "time/s_per_step", np.diff(at_ns) / NS_PER_S / steps
    spent_ns: dict[str, Floats] = {}
    for code in np.unique(host.code).tolist():
        spent = np.diff(_time_in_phase(host, code, at_ns))
        name = host.name(code)
        spent_ns[name] = spent_ns[name] + spent if name in spent_ns else spent
    by_time = sorted(spent_ns, key=lambda name: -float(spent_ns[name].sum()))
    for name in by_time[:MOST_PHASES]:
        yield f"time/{name}_s_per_step", spent_ns[name] / NS_PER_S / steps
    if rest := by_time[MOST_PHASES:]:
        summed = np.sum([spent_ns[name] for name in rest], axis=0)
        yield f"time/{OTHERS}_s_per_step", summed / NS_PER_S / steps


def _time_in_phase(host: Timeline, code: int, at_ns: Times) -> Floats:
    """Nanoseconds that the rank had spent in a phase until each of some instants."""
    of_phase = host.code == code
    begin_ns = host.begin_ns[of_phase]
    order = np.argsort(begin_ns)
    begin_ns, length_ns = begin_ns[order], (host.end_ns[of_phase] - host.begin_ns[of_phase])[order]
    before_ns = np.concatenate([[0], np.cumsum(length_ns)])
    place = np.searchsorted(begin_ns, at_ns, "right") - 1
    inside_ns = np.clip(at_ns - begin_ns[place], 0, length_ns[place])
    return np.where(place < 0, 0, before_ns[place] + inside_ns).astype(np.float64)


def _energies(
    run: StoredRun, curves: list[_Curve], at_ns: Times, steps: Times
) -> dict[str, Floats]:
    """Measured energy; per sample where the run logged samples or tokens, else NaN."""
    joules = np.sum([curve.at(at_ns) for curve in curves], axis=0)
    total, spent = joules[1:] - joules[0], np.diff(joules)
    columns = {
        "energy/total_j": total,
        "energy/power_w": spent / (np.diff(at_ns) / NS_PER_S),
        "energy/j_per_step": spent / steps,
    }
    samples = _logged(run, at_ns)
    if samples is not None:
        columns["energy/j_per_sample"] = np.divide(
            spent, samples, out=np.full(len(spent), np.nan), where=samples > 0
        )
    if (carbon := run.report.carbon) is not None:  # its mean, where it changes with time
        columns["energy/co2e_g"] = total / J_PER_KWH * carbon.g_per_kwh
    return columns


def _modelled_energies(curves: list[_Curve], at_ns: Times) -> dict[str, Floats]:
    joules = np.sum([curve.at(at_ns) for curve in curves], axis=0)
    return {
        "energy/modelled_total_j": joules[1:] - joules[0],
        "energy/modelled_power_w": np.diff(joules) / (np.diff(at_ns) / NS_PER_S),
    }


def _logged(run: StoredRun, at_ns: Times) -> Floats | None:
    """Samples (or tokens) that the run logged between the instants; None if it did not."""
    values = run.reader.logged()
    counts = values.get("samples") or values.get("tokens")
    if counts is None:
        return None
    time_ns, number = counts
    total = np.concatenate([[0.0], np.cumsum(number)])
    return np.diff(total[np.searchsorted(time_ns, at_ns, "right")])
