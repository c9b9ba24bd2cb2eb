"""Metric families of a stored run: the report's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from .._shared import metrics
from .._shared.report_fields import totals
from .families import Families, add_estimate


def report_families(report: Mapping[str, Any]) -> Iterator[Metric]:
    """The report's figures as gauges: final values, so no counters to take a rate() of."""
    families = Families()
    run, total = report["run"], report["total"]
    own = {"run": run["id"]}
    fields = {key: run[key] or "" for key in ("name", "host", "status", "started", "data")}
    families.info(metrics.RUN_INFO, {**own, **fields})
    families.add(metrics.RUN_DURATION, run["duration_s"], own)
    families.add(metrics.RUN_STEPS, run["steps"], own)
    families.bounded(metrics.RUN_ENERGY, total["energy_j"], total["energy_j_interval"], own)
    for definition, value in totals(report):
        families.add(definition, value, own)
    for row in report["sources"]:
        if row["energy_j"] is not None:
            labels = own | {
                "source": row["source"],
                "device": row["device"],
                "provenance": row["provenance"],
                "in_total": str(row["in_total"]).lower(),
            }
            families.add(metrics.SOURCE_ENERGY, row["energy_j"], labels)
    for row in report["phases"]:
        labels = own | {"device": row["device"], "phase": row["phase"]}
        families.add(metrics.PHASE_DURATION, row["time_s"], labels)
        if row["energy_j"] is not None:
            add_estimate(families, row["energy_j"], row["energy_j_interval"], row["status"], labels)
    yield from families
