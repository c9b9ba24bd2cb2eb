"""Metric families that grow sample by sample, and the metrics of live and stored runs alike.

Base units, ``_total`` for counters, an ``info`` metric per run (Prometheus' naming practices). A
counter never falls, so ``rate()`` of joules is watts; what is revised as data come is a gauge. A
phase that is refused has no estimate and therefore no series of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.samples import Exemplar

from .._shared.report_fields import bounds

LONGEST = 200  # characters of a label's value


@lru_cache(4096)  # the same few hundred again and again
def label(value: str | float) -> str:
    """Fit for a label: valid Unicode, bounded."""
    text = str(value).encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class Families:
    """Families by name, in the order of their first samples."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def gauge(self, name: str, about: str, value: float, **labels: Any) -> None:
        """Add one sample of a gauge."""
        family = self._family(GaugeMetricFamily, name, about, labels)
        family.add_metric([label(v) for v in labels.values()], value)

    def bounded(
        self,
        name: str,
        about: str,
        best: float | None,
        interval: Sequence[float | None] | None,
        **labels: Any,
    ) -> None:
        """Add a gauge of an estimate and of the ends of its interval; None is left out."""
        for bound, value in bounds(best, interval):
            self.gauge(name, about, value, **labels, bound=bound)

    def counter(
        self,
        name: str,
        about: str,
        value: float,
        created: float | None = None,
        exemplar: Exemplar | None = None,
        **labels: Any,
    ) -> None:
        """Add one sample of a counter; ``name`` without ``_total``."""
        family = self._family(CounterMetricFamily, name, about, labels)
        values = [label(v) for v in labels.values()]
        family.add_metric(values, value, created, exemplar=exemplar)

    def info(self, family_name: str, about: str, /, **labels: Any) -> None:
        """Add one info sample; its labels hold the information."""
        family = self._families.setdefault(
            family_name, InfoMetricFamily(family_name, about, labels=())
        )
        values = {key: label(value) for key, value in labels.items()}
        family.add_sample(f"{family_name}_info", values, 1)

    def _family(self, kind: Any, name: str, about: str, labels: Mapping[str, Any]) -> Any:
        """The family of that name; a new one takes its label names from its first sample."""
        if name not in self._families:
            self._families[name] = kind(name, about, labels=list(labels))
        return self._families[name]

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._families.values())


def estimate(
    families: Families,
    best: float,
    interval: Sequence[float | None] | None,
    status: str,
    at: Mapping[str, Any],
) -> None:
    """Add a phase's energy, its interval, and how well both are known."""
    about = "Best estimate of a phase's energy, and its 95 % interval; revised as data come"
    families.bounded("probe_phase_energy_estimate_joules", about, best, interval, **at)
    families.gauge(
        "probe_phase_status", "1 for how well a phase's energy is known", 1.0, **at, status=status
    )


def describe(families: Families, about: str, run: Mapping[str, Any], *keys: str) -> None:
    """Add the info metric of a run: some fields of run.json or of the report's ``run``."""
    fields = {key: run.get(key) or "" for key in keys}
    families.info("probe_run", about, run=run.get("id", ""), **fields)
