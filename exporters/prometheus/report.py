"""Metric families of a stored run: the report's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from .._shared.report_fields import TOTALS
from .families import Families, describe, estimate

_UNITS = {"g": "grams", "J": "joules", "1": "ratio"}


def report_families(report: Mapping[str, Any]) -> Iterator[Metric]:
    """The report's figures as gauges: final values, so no counters to take a rate() of."""
    families = Families()
    run, total = report["run"], report["total"]
    own = {"run": run["id"]}
    fields = ("name", "host", "status", "started", "data")
    describe(families, "A run that was recorded", run, *fields)
    families.gauge("probe_run_duration_seconds", "From begin to end", run["duration_s"], **own)
    families.gauge("probe_run_steps", "Optimizer steps", run["steps"], **own)
    energy_j, interval = total["energy_j"], total["energy_j_interval"]
    families.bounded("probe_run_energy_joules", "Measured energy", energy_j, interval, **own)
    for key, name, unit, about in TOTALS:
        if total[key] is not None:
            families.gauge(f"probe_run_{name}_{_UNITS[unit]}", about, total[key], **own)
    for row in report["sources"]:
        if row["energy_j"] is not None:
            families.gauge(
                "probe_source_energy_joules",
                "Energy by meter",
                row["energy_j"],
                **own,
                source=row["source"],
                device=row["device"],
                provenance=row["provenance"],
                in_total=str(row["in_total"]).lower(),
            )
    for row in report["phases"]:
        at = own | {"device": row["device"], "phase": row["phase"]}
        families.gauge("probe_phase_duration_seconds", "Time in a phase", row["time_s"], **at)
        if row["energy_j"] is not None:
            estimate(families, row["energy_j"], row["energy_j_interval"], row["status"], at)
    yield from families
