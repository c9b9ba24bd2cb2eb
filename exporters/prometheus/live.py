"""Metric families of live runs, from the live pages of their recorders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar

from probe.store.live import LivePage
from probe.units import NS_PER_S

from .._shared.live_runs import LiveRun, wall_s, which_rank
from .._shared.report_fields import kind_of
from .families import Families, describe, estimate

MOST_PHASES = 64  # series per device: phase names with a counter in them must not flood the server
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


def live_families(runs: Iterable[LiveRun], now_ns: int) -> Iterator[Metric]:
    """All metrics of live runs; ``now_ns`` is monotonic."""
    families = Families()
    for run in runs:
        fields = {"data": "unknown", **run.meta}
        describe(families, "A run that goes on", fields, "name", "host", "started", "data")
        for page in run.live.pages:
            _page(families, run.meta, page, now_ns)
    yield from families


def _page(families: Families, meta: Mapping[str, Any], page: LivePage, now_ns: int) -> None:
    own = {"run": meta.get("id", ""), "node": page.node}
    created = wall_s(meta, int(meta.get("begin_ns") or 0))
    for device in page.devices:
        if (kind := kind_of(device.device, device.device_kind)) == "other":
            continue
        at = own | {"device": device.device, "uuid": device.uuid}
        if device.provenance == "measured":
            families.counter(
                f"probe_{kind}_energy_joules",
                "Energy since the run's begin, measured",
                device.energy_j,
                created,
                **at,
            )
            if device.power_w is not None:
                families.gauge(
                    f"probe_{kind}_power_watts",
                    "Mean power over the last second",
                    device.power_w,
                    **at,
                )
        elif device.power_w is not None:
            families.gauge(
                f"probe_{kind}_modelled_power_watts",
                "A model's power, not measured",
                device.power_w,
                **at,
            )
    _phases(families, own, page)
    _values(families, own, page)
    step = Exemplar({"step": str(page.steps)}, 1.0)
    families.counter(
        "probe_steps",
        "Optimizer steps that closed",
        page.steps,
        exemplar=step if page.steps else None,
        **own,
    )
    families.counter(
        "probe_edges_lost", "Phase edges that found the ring full", page.edges_lost, **own
    )
    families.counter(
        "probe_sensor_gaps", "Readings that should have been and were not", page.gaps, **own
    )
    families.gauge(
        "probe_page_age_seconds",
        "Since the recorder last said anything",
        max(0.0, (now_ns - page.time_ns) / NS_PER_S),
        **own,
    )
    if page.last_edge_ns:
        families.gauge(
            "probe_run_idle_seconds",
            "Since a phase last began or ended",
            0.0 if page.final else max(0.0, (now_ns - page.last_edge_ns) / NS_PER_S),
            **own,
        )
    families.gauge(
        "probe_run_ended",
        "1 once the run has ended: these are its totals",
        float(page.final),
        **own,
    )


def _phases(families: Families, own: dict[str, Any], page: LivePage) -> None:
    for device in dict.fromkeys(p.device for p in page.phases):
        rows = [p for p in page.phases if p.device == device]
        rows.sort(key=lambda p: (p.phase != "unattributed", -p.given_j))
        shown, rest = rows[:MOST_PHASES], rows[MOST_PHASES:]
        about = "Energy handed to a phase; over phases it adds up to the device's"
        for row in shown:
            at = own | {"device": device, "phase": row.phase}
            families.counter("probe_phase_energy_joules", about, row.given_j, **at)
            if row.energy_j is not None:
                estimate(families, row.energy_j, (row.low_j, row.high_j), row.status, at)
        if rest:
            families.counter(
                "probe_phase_energy_joules",
                about,
                sum(r.given_j for r in rest),
                **(own | {"device": device, "phase": REST}),
            )
    for rank in dict.fromkeys(t.rank for t in page.times):
        by_time = sorted((t for t in page.times if t.rank == rank), key=lambda t: -t.seconds)
        for time in by_time[:MOST_PHASES]:
            at = own | which_rank(rank) | {"phase": time.phase}
            families.counter(
                "probe_phase_seconds", "Time in a phase on the host", time.seconds, **at
            )
            families.counter(
                "probe_phase_entries", "How often a phase was entered", time.count, **at
            )


def _values(families: Families, own: dict[str, Any], page: LivePage) -> None:
    for row in page.values:
        if (kind := kind_of(row.device, row.device_kind)) == "other":
            continue
        at = own | {"device": row.device}
        if row.quantity in _GAUGES:
            name, about = _GAUGES[row.quantity]
            families.gauge(f"probe_{kind}_{name}", about, row.value, **at)
        elif row.quantity in _CLOCKS:
            families.gauge(
                f"probe_{kind}_clock_hertz", "Clock", row.value, **at, domain=_CLOCKS[row.quantity]
            )
        elif row.quantity == "power_cap_time":
            families.counter(
                f"probe_{kind}_throttled_seconds",
                "Time held back",
                row.value,
                **at,
                reason="power_cap",
            )
        elif row.quantity == "cpu_time":
            families.counter(f"probe_{kind}_cpu_seconds", "Processor time", row.value, **at)
