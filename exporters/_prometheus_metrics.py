"""What Prometheus sees: metric families of live runs and of a stored one.

Base units, ``_total`` for counters, an ``info`` metric per run (Prometheus' naming practices). A
counter never falls, so ``rate()`` of joules is watts; what is revised as data come is a gauge. A
phase that is refused has no estimate and therefore no series of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.samples import Exemplar

from probe.store.live import Live, LivePage
from probe.units import NS_PER_S

from ._report_fields import kind_of

LONGEST = 200  # characters of a label's value
MOST_PHASES = 64  # series per device; a name made of a counter must not flood the server
REST = "(others)"

# quantity of a meter -> (metric's name after the device kind, what it is)
_GAUGES: Mapping[str, tuple[str, str]] = {
    "utilization": ("utilization_ratio", "Share of time in which anything ran"),
    "memory_utilization": ("memory_utilization_ratio", "Share of time memory was in use"),
    "memory_used": ("memory_used_bytes", "Memory in use"),
    "sm_activity": ("sm_active_ratio", "Mean share of multiprocessors with work"),
    "tensor_activity": ("tensor_active_ratio", "Share of time the tensor pipes worked"),
    "dram_activity": ("dram_active_ratio", "Share of the memory's peak bandwidth"),
    "temperature": ("temperature_celsius", "Temperature"),
    "power_limit": ("power_limit_watts", "Enforced power cap"),
    "pcie_tx": ("pcie_transmit_bytes_per_second", "Sent over PCIe"),
    "pcie_rx": ("pcie_receive_bytes_per_second", "Received over PCIe"),
}
_CLOCKS = {"sm_clock": "sm", "memory_clock": "memory"}


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that goes on, or has just ended, with what its recorders say."""

    meta: Mapping[str, Any]  # run.json
    live: Live


@lru_cache(4096)  # the same few hundred again and again
def label(value: str | float) -> str:
    """Fit for a label: valid Unicode, bounded."""
    text = str(value).encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


class _Book:
    """Families by name, in the order in which they came up."""

    def __init__(self) -> None:
        self._found: dict[str, Metric] = {}

    def gauge(self, name: str, about: str, value: float, **labels: Any) -> None:
        """One sample."""
        family = self._found.get(name)
        if family is None:
            family = GaugeMetricFamily(name, about, labels=list(labels))
            self._found[name] = family
        family.add_metric([label(v) for v in labels.values()], value)  # type: ignore[attr-defined]

    def counter(
        self,
        name: str,
        about: str,
        value: float,
        created: float | None = None,
        exemplar: Exemplar | None = None,
        **labels: Any,
    ) -> None:
        """One sample; ``name`` without ``_total``."""
        family = self._found.get(name)
        if family is None:
            family = CounterMetricFamily(name, about, labels=list(labels))
            self._found[name] = family
        values = [label(v) for v in labels.values()]
        family.add_metric(values, value, created, exemplar=exemplar)  # type: ignore[attr-defined]

    def info(self, family_name: str, about: str, /, **labels: Any) -> None:
        """One sample, its labels being the information."""
        family = self._found.setdefault(
            family_name, InfoMetricFamily(family_name, about, labels=())
        )
        known = {key: label(value) for key, value in labels.items()}
        family.add_sample(f"{family_name}_info", known, 1)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._found.values())


def live_families(runs: Iterable[LiveRun], now_ns: int) -> Iterator[Metric]:
    """Everything of the runs that go on; ``now_ns`` is monotonic."""
    book = _Book()
    for run in runs:
        _info(book, run.meta)
        for page in run.live.pages:
            _page(book, run.meta, page, now_ns)
    yield from book


def _info(book: _Book, meta: Mapping[str, Any]) -> None:
    book.info(
        "probe_run",
        "A run that goes on",
        run=meta.get("id", ""),
        name=meta.get("name") or "",
        host=meta.get("host", ""),
        started=meta.get("started", ""),
        data=meta.get("data", "unknown"),
    )


def _page(book: _Book, meta: Mapping[str, Any], page: LivePage, now_ns: int) -> None:
    own = {"run": meta.get("id", ""), "node": page.node}
    created = wall_s(meta, int(meta.get("begin_ns") or 0))
    for device in page.devices:
        if (kind := kind_of(device.device, device.device_kind)) == "other":
            continue
        at = own | {"device": device.device, "uuid": device.uuid}
        if device.provenance == "measured":
            book.counter(
                f"probe_{kind}_energy_joules",
                "Energy since the run's begin, measured",
                device.energy_j,
                created,
                **at,
            )
            if device.power_w is not None:
                book.gauge(
                    f"probe_{kind}_power_watts",
                    "Mean power over the last second",
                    device.power_w,
                    **at,
                )
        elif device.power_w is not None:
            book.gauge(
                f"probe_{kind}_modelled_power_watts",
                "A model's power, not measured",
                device.power_w,
                **at,
            )
    _phases(book, own, page)
    _values(book, own, page)
    step = Exemplar({"step": str(page.steps)}, 1.0)
    book.counter(
        "probe_steps",
        "Optimizer steps that closed",
        page.steps,
        exemplar=step if page.steps else None,
        **own,
    )
    book.counter("probe_edges_lost", "Phase edges that found the ring full", page.edges_lost, **own)
    book.counter(
        "probe_sensor_gaps", "Readings that should have been and were not", page.gaps, **own
    )
    book.gauge(
        "probe_page_age_seconds",
        "Since the recorder last said anything",
        max(0.0, (now_ns - page.time_ns) / NS_PER_S),
        **own,
    )
    if page.last_edge_ns:
        book.gauge(
            "probe_run_idle_seconds",
            "Since a phase last began or ended",
            0.0 if page.final else max(0.0, (now_ns - page.last_edge_ns) / NS_PER_S),
            **own,
        )
    book.gauge(
        "probe_run_ended",
        "1 once the run has ended: these are its totals",
        float(page.final),
        **own,
    )


def _phases(book: _Book, own: Mapping[str, Any], page: LivePage) -> None:
    for device in dict.fromkeys(p.device for p in page.phases):
        rows = [p for p in page.phases if p.device == device]
        rows.sort(key=lambda p: (p.phase != "unattributed", -p.given_j))
        shown, rest = rows[:MOST_PHASES], rows[MOST_PHASES:]
        about = "Energy handed to a phase; over phases it adds up to the device's"
        for row in shown:
            at = dict(own) | {"device": device, "phase": row.phase}
            book.counter("probe_phase_energy_joules", about, row.given_j, **at)
            if row.energy_j is not None:
                _estimate(book, at, row.energy_j, row.low_j, row.high_j, row.status)
        if rest:
            book.counter(
                "probe_phase_energy_joules",
                about,
                sum(r.given_j for r in rest),
                **(dict(own) | {"device": device, "phase": REST}),
            )
    for rank in dict.fromkeys(t.rank for t in page.times):
        mine = sorted((t for t in page.times if t.rank == rank), key=lambda t: -t.seconds)
        for time in mine[:MOST_PHASES]:
            at = dict(own) | {"rank": rank, "phase": time.phase}
            book.counter("probe_phase_seconds", "Time in a phase on the host", time.seconds, **at)
            book.counter("probe_phase_entries", "How often a phase was entered", time.count, **at)


def _estimate(
    book: _Book,
    at: Mapping[str, Any],
    best: float,
    low: float | None,
    high: float | None,
    status: str,
) -> None:
    about = "Best estimate of a phase's energy, and its 95 % interval; revised as data come"
    for bound, value in (("best", best), ("lower", low), ("upper", high)):
        if value is not None:
            book.gauge("probe_phase_energy_estimate_joules", about, value, **at, bound=bound)
    book.gauge(
        "probe_phase_status", "1 for how well a phase's energy is known", 1.0, **at, status=status
    )


def _values(book: _Book, own: Mapping[str, Any], page: LivePage) -> None:
    for row in page.values:
        kind = kind_of(row.device, row.device_kind)
        if kind == "other":
            continue
        at = dict(own) | {"device": row.device}
        if row.quantity in _GAUGES:
            name, about = _GAUGES[row.quantity]
            book.gauge(f"probe_{kind}_{name}", about, row.value, **at)
        elif row.quantity in _CLOCKS:
            book.gauge(
                f"probe_{kind}_clock_hertz", "Clock", row.value, **at, domain=_CLOCKS[row.quantity]
            )
        elif row.quantity == "power_cap_time":
            book.counter(
                f"probe_{kind}_throttled_seconds",
                "Time held back",
                row.value,
                **at,
                reason="power_cap",
            )
        elif row.quantity == "cpu_time":
            book.counter(f"probe_{kind}_cpu_seconds", "Processor time", row.value, **at)


def report_families(report: Mapping[str, Any]) -> Iterator[Metric]:
    """The report's figures as gauges: final, and no counter that anybody would rate()."""
    book = _Book()
    run, total = report["run"], report["total"]
    own = {"run": run["id"]}
    book.info(
        "probe_run",
        "A run that was recorded",
        **own,
        name=run["name"],
        host=run["host"],
        status=run["status"],
        started=run["started"],
        data=run["data"],
    )
    book.gauge("probe_run_duration_seconds", "From begin to end", run["duration_s"], **own)
    book.gauge("probe_run_steps", "Optimizer steps", run["steps"], **own)
    _maybe(book, "probe_run_energy_joules", "Measured energy", total["energy_j"], own, "best")
    for bound, place in (("lower", 0), ("upper", 1)):
        interval = total["energy_j_interval"]
        _maybe(book, "probe_run_energy_joules", "", interval and interval[place], own, bound)
    for key, name, about in (
        ("co2e_g", "probe_run_co2e_grams", "Of the measured energy"),
        ("modelled_energy_j", "probe_run_modelled_energy_joules", "A model's, not measured"),
        ("modelled_co2e_g", "probe_run_modelled_co2e_grams", "Of the modelled energy"),
        ("coverage", "probe_run_coverage_ratio", "Share that lies between meter updates"),
    ):
        if total[key] is not None:
            book.gauge(name, about, total[key], **own)
    for row in report["sources"]:
        if row["energy_j"] is not None:
            book.gauge(
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
        book.gauge("probe_phase_duration_seconds", "Time in a phase", row["time_s"], **at)
        if row["energy_j"] is not None:
            low, high = row["energy_j_interval"] or (None, None)
            _estimate(book, at, row["energy_j"], low, high, row["status"])
    yield from book


def _maybe(
    book: _Book, name: str, about: str, value: float | None, own: Mapping[str, Any], bound: str
) -> None:
    if value is not None:
        book.gauge(name, about, value, **own, bound=bound)


def wall_s(meta: Mapping[str, Any], monotonic_ns: int) -> float | None:
    """A monotonic instant of a run as seconds since 1970."""
    anchor = meta.get("anchor") or {}
    try:
        ahead_ns = int(anchor["wall_ns"]) - int(anchor["monotonic_ns"])
    except (KeyError, TypeError, ValueError):
        return None
    return (monotonic_ns + ahead_ns) / NS_PER_S
