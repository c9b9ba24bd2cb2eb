"""Metric families of a stored run: the report's figures."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from probe.report.model import Report

from .._shared import metrics
from .._shared.report_fields import activity_of, memory_of, totals
from .families import Families, add_estimate, job_labels


def report_families(report: Report) -> Iterator[Metric]:
    """The report's figures as gauges: final values, so no counters to take a rate() of."""
    families = Families()
    run, total = report.run, report.total
    own = {"run": run.id}
    families.info(
        metrics.RUN_INFO,
        {
            **own,
            "name": run.name,
            "host": run.host,
            "status": run.status,
            "started": run.started,
            "data": run.data,
            **job_labels(run.scheduler),
        },
    )
    families.add(metrics.RUN_DURATION, run.duration_s, own)
    families.add(metrics.RUN_STEPS, run.steps, own)
    families.bounded(metrics.RUN_ENERGY, total.energy_j, total.energy_j_interval, own)
    for definition, value in totals(report):
        families.add(definition, value, own)
    for source in report.sources:
        if source.energy_j is not None:
            labels = own | {
                "source": source.source,
                "device": source.device,
                "provenance": source.provenance,
                "in_total": str(source.in_total).lower(),
            }
            metric = metrics.SOURCE_MODELLED_ENERGY if source.is_modelled else metrics.SOURCE_ENERGY
            families.add(metric, source.energy_j, labels)
    for row in report.phases:
        labels = own | {"device": row.device, "phase": row.phase}
        families.add(metrics.PHASE_DURATION, row.time_s, labels)
        if row.energy_j is None:
            continue
        if row.is_modelled:
            families.add(metrics.PHASE_MODELLED_ENERGY, row.energy_j, labels)
        else:
            add_estimate(families, row.energy_j, row.energy_j_interval, row.status, labels)
    for rate in report.rates:
        labels = own | {"device": rate.device, "phase": rate.phase, "quantity": rate.quantity}
        families.bounded(activity_of(rate), rate.value, rate.interval, labels)
    for held in report.memory:
        labels = own | {
            "rank": str(held.rank),
            "device": held.device,
            "phase": held.phase,
            "quantity": held.quantity,
        }
        for definition, value in memory_of(held):
            families.add(definition, value, labels)
    yield from families
