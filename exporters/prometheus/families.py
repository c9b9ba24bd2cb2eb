"""Metric families that grow sample by sample, and the metrics of live and stored runs alike.

Names, types and help texts come from :mod:`exporters._shared.metrics`, so nothing else can be
served. A phase whose energy is refused has no estimate and therefore no series of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.samples import Exemplar

from .._shared import metrics
from .._shared.metrics import MetricDefinition, MetricType
from .._shared.report_fields import bounds

LONGEST = 200  # characters of a label's value
Labels = Mapping[str, str | int]
_FAMILY_TYPES = {MetricType.GAUGE: GaugeMetricFamily, MetricType.COUNTER: CounterMetricFamily}


@lru_cache(4096)  # the same few hundred again and again
def label(value: str | float) -> str:
    """Fit for a label: valid Unicode, bounded."""
    text = str(value).encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class Families:
    """Families by name, in the order of their first samples."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(
        self,
        definition: MetricDefinition,
        value: float,
        labels: Labels,
        *,
        created_s: float | None = None,
        exemplar: Exemplar | None = None,
    ) -> None:
        """Add one sample of a gauge or a counter.

        Args:
            definition: its type decides which of the two it is.
            created_s: when a counter began to count, in seconds since 1970.
            exemplar: an example of what a counter counted.
        """
        name = definition.prometheus_name
        if name not in self._families:
            family_type = _FAMILY_TYPES[definition.type]
            self._families[name] = family_type(name, definition.help, labels=list(labels))
        family, values = self._families[name], [label(text) for text in labels.values()]
        if isinstance(family, CounterMetricFamily):
            family.add_metric(values, value, created_s, exemplar=exemplar)
        elif isinstance(family, GaugeMetricFamily):
            family.add_metric(values, value)

    def bounded(
        self,
        definition: MetricDefinition,
        best: float | None,
        interval: Sequence[float | None] | None,
        labels: Labels,
    ) -> None:
        """Add a gauge of an estimate and of the ends of its interval; None is left out."""
        for bound, value in bounds(best, interval):
            self.add(definition, value, {**labels, "bound": bound})

    def info(self, definition: MetricDefinition, labels: Labels) -> None:
        """Add one info sample; its labels hold the information."""
        assert definition.type is MetricType.INFO
        name = definition.prometheus_name
        family = self._families.setdefault(
            name, InfoMetricFamily(name.removesuffix("_info"), definition.help, labels=())
        )
        family.add_sample(name, {key: label(value) for key, value in labels.items()}, 1)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


def job_labels(scheduler: Mapping[str, str] | None) -> dict[str, str]:
    """Labels of a run's batch job, ``slurm_job_id`` and so on; none without one.

    Args:
        scheduler: as in a report's ``run.scheduler``.
    """
    if not scheduler:
        return {}
    system, names = scheduler["scheduler"], ("job_id", "account", "partition", "user")
    return {f"{system}_{name}": scheduler[name] for name in names if scheduler.get(name)}


def add_estimate(
    families: Families,
    best: float,
    interval: Sequence[float | None] | None,
    status: str,
    labels: Labels,
) -> None:
    """Add a phase's energy, its interval, and how well both are resolved."""
    families.bounded(metrics.PHASE_ENERGY_ESTIMATE, best, interval, labels)
    families.add(metrics.PHASE_STATUS, 1.0, {**labels, "status": status})
