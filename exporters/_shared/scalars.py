"""Figures of a run for experiment trackers: over its steps, and the report's own at the end.

=========================  =========================================================================
``time/*``                 seconds per step, in all and in each phase, of the first rank
``energy/*``               over the steps, measured; ``energy/modelled_*`` by a power model
``time_final/*``           the report's times: of the run, of a step, of each phase on each device
``energy_final/*``         the report's joules and CO2e; ``…modelled_j`` is by a power model
``memory_final/*``         bytes that a rank held in a phase, peak and mean: of its process, its GPU
``activity_final/*``       share of a phase in which a unit of a device was busy, or power capped;
                           CPU cores that a rank's process kept busy
=========================  =========================================================================

What is unknown has no figure. The report's figures have names of their own since trackers show the
last row as the run's summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from probe.report.model import Interval, Report
from probe.report.usage_tables import CPU_CORES

from . import report_fields
from .run import ExportRefused, StoredRun
from .step_rows import Row, step_rows


@dataclass(frozen=True, slots=True)
class Scalars:
    """What a tracker gets of a run.

    ``rows`` are over its steps, ``final`` are the report's figures at the run's end, after the last
    step. ``config`` says in words what was run and where its energy is from.
    """

    rows: list[Row]
    final: Row
    config: Mapping[str, str]

    @property
    def counts(self) -> str:
        """How much that is, in words."""
        return f"{len(self.rows)} rows over the steps and {len(self.final.values)} final figures"


def plain(name: str) -> str:
    """The name with only the characters that all trackers accept."""
    return re.sub(r"[^A-Za-z0-9_.\-/ ]+", "_", name)[:200]


def scalars(run: StoredRun) -> Scalars:
    """The figures of a run. Raises ExportRefused if it recorded neither time nor energy."""
    report = run.report
    if not report.phases and not report.sources:
        raise ExportRefused(f"{run.id} has no time or energy to log: `probe doctor` says why")
    final = {
        name: value
        for figures in (_final_times, _final_energies, _final_activity)
        for name, value in figures(report)
    }
    return Scalars(step_rows(run), Row(report.run.steps, run.end_s, final), _config(report))


def _config(report: Report) -> dict[str, str]:
    devices = {row.model or row.device for row in report.sources if row.in_total}
    return {
        "phasewatt.run": report.run.id,
        "phasewatt.status": report.run.status,
        "phasewatt.host": report.run.host,
        "phasewatt.data": report.run.data,
        "phasewatt.cpu": report_fields.machine_text(report, "cpu_model"),
        "phasewatt.devices": ", ".join(sorted(devices)),
        "phasewatt.energy": _origin(report),
    }


def _origin(report: Report) -> str:
    """Where the run's energy is from, in words."""
    total = report.total
    origins = (("measured", total.energy_j), ("modelled", total.modelled_energy_j))
    return " and ".join(word for word, joules in origins if joules is not None) or "unknown"


def _final_times(report: Report) -> Iterator[tuple[str, float]]:
    yield "time_final/total_s", report.run.duration_s
    if report.run.step_s is not None:
        yield "time_final/step_s", report.run.step_s
    for row in report.phases:
        yield f"time_final/{row.device}/{row.phase}_s", row.time_s


def _final_energies(report: Report) -> Iterator[tuple[str, float]]:
    total = report.total
    yield from _bounded("energy_final/total_j", total.energy_j, total.energy_j_interval)
    for name, value in (
        ("co2e_g", total.co2e_g),
        ("modelled_j", total.modelled_energy_j),
        ("modelled_co2e_g", total.modelled_co2e_g),
        ("coverage", total.coverage),
    ):
        if value is not None:
            yield f"energy_final/{name}", value
    for row in report.phases:
        unit = "modelled_j" if row.is_modelled else "j"
        name = f"energy_final/{row.device}/{row.phase}_{unit}"
        yield from _bounded(name, row.energy_j, row.energy_j_interval)


def _final_activity(report: Report) -> Iterator[tuple[str, float]]:
    for row in report.memory:
        name = f"memory_final/{row.device}/{row.phase}_{row.quantity}"
        yield f"{name}_peak_bytes", row.peak_bytes
        yield f"{name}_mean_bytes", row.mean_bytes
    for rate in report.rates:
        quantity = "cpu_cores" if rate.quantity == CPU_CORES else rate.quantity
        name = f"activity_final/{rate.device}/{rate.phase}_{quantity}"
        yield from _bounded(name, rate.value, rate.interval)


def _bounded(
    name: str, best: float | None, interval: Interval | None
) -> Iterator[tuple[str, float]]:
    """An estimate, and the ends of its interval under longer names."""
    for bound, value in report_fields.bounds(best, interval):
        yield name + {"best": "", "lower": "_low", "upper": "_high"}[bound], value
