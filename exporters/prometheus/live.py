"""Metric families of live runs, from the live pages of their recorders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar

from probe.model import Provenance
from probe.store.live import LiveDevice, LivePage, LiveValue
from probe.units import NS_PER_S

from .._shared import metrics
from .._shared.live_runs import LiveRun, which_rank
from .._shared.report_fields import activity_of, kind_of, memory_of
from .families import Families, Labels, add_estimate, job_labels

MOST_PHASES = 64  # series per device: phase names with a counter in them must not flood the server
REST = "(others)"

_GAUGES = {  # by the quantity of a meter
    "utilization": metrics.DEVICE_UTILIZATION,
    "memory_utilization": metrics.DEVICE_MEMORY_UTILIZATION,
    "memory_used": metrics.DEVICE_MEMORY_USED,
    "sm_activity": metrics.DEVICE_SM_ACTIVE,
    "tensor_activity": metrics.DEVICE_TENSOR_ACTIVE,
    "dram_activity": metrics.DEVICE_DRAM_ACTIVE,
    "temperature": metrics.DEVICE_TEMPERATURE,
    "power_limit": metrics.DEVICE_POWER_LIMIT,
    "pcie_tx": metrics.DEVICE_PCIE_TRANSMIT,
    "pcie_rx": metrics.DEVICE_PCIE_RECEIVE,
}
_CLOCKS = {"sm_clock": "sm", "memory_clock": "memory"}


def live_families(runs: Iterable[LiveRun], now_ns: int) -> Iterator[Metric]:
    """All metrics of live runs; ``now_ns`` is monotonic."""
    families = Families()
    for run in runs:
        families.info(
            metrics.RUN_INFO,
            {
                "run": run.id,
                "name": run.name,
                "host": run.host,
                "started": run.started,
                "data": run.data,
                **job_labels(run.scheduler),
            },
        )
        for page in run.live.pages:
            own = {"run": run.id, "node": page.node}
            _add_devices(families, own, page, run.begin_s)
            _add_phase_energy(families, own, page)
            _add_phase_time(families, own, page)
            _add_phase_usage(families, own, page)
            for value in page.values:
                _add_value(families, own, value)
            _add_state(families, own, page, now_ns)
    yield from families


def _add_devices(families: Families, own: Labels, page: LivePage, created_s: float | None) -> None:
    for device in page.devices:
        kind = kind_of(device.device, device.device_kind)
        if kind in metrics.DEVICE_KINDS:
            labels = {**own, "device": device.device, "uuid": device.uuid}
            _add_device(families, labels, kind, device, created_s)


def _add_device(
    families: Families, labels: Labels, kind: str, device: LiveDevice, created_s: float | None
) -> None:
    """A meter's energy and power; of a model its power only."""
    power = metrics.DEVICE_MODELLED_POWER[kind]
    if device.provenance == Provenance.MEASURED:
        power = metrics.DEVICE_POWER[kind]
        families.add(metrics.DEVICE_ENERGY[kind], device.energy_j, labels, created_s=created_s)
    if device.power_w is not None:
        families.add(power, device.power_w, labels)


def _add_phase_energy(families: Families, own: Labels, page: LivePage) -> None:
    for device in dict.fromkeys(p.device for p in page.phases):
        rows = [p for p in page.phases if p.device == device]
        rows.sort(key=lambda p: (p.phase != "unattributed", -p.given_j))
        shown, rest = rows[:MOST_PHASES], rows[MOST_PHASES:]
        for row in shown:
            labels = {**own, "device": device, "phase": row.phase}
            families.add(metrics.PHASE_ENERGY, row.given_j, labels)
            if row.energy_j is not None:
                interval = (row.low_j, row.high_j)
                add_estimate(families, row.energy_j, interval, row.status, labels)
        if rest:
            labels = {**own, "device": device, "phase": REST}
            families.add(metrics.PHASE_ENERGY, sum(r.given_j for r in rest), labels)


def _add_phase_time(families: Families, own: Labels, page: LivePage) -> None:
    for rank in dict.fromkeys(t.rank for t in page.times):
        by_time = sorted((t for t in page.times if t.rank == rank), key=lambda t: -t.seconds)
        for time in by_time[:MOST_PHASES]:
            labels = {**own, **which_rank(rank), "phase": time.phase}
            families.add(metrics.PHASE_TIME, time.seconds, labels)
            families.add(metrics.PHASE_ENTRIES, time.count, labels)


def _add_phase_usage(families: Families, own: Labels, page: LivePage) -> None:
    """Memory, and how busy the devices were, of the phases that took most time."""
    by_time = sorted(page.times, key=lambda time: -time.seconds)
    phases = list(dict.fromkeys(time.phase for time in by_time))[:MOST_PHASES]
    for held in page.memory:
        if held.phase in phases:
            place = {"device": held.device, "phase": held.phase}
            labels = {**own, **which_rank(held.rank), **place}
            for definition, value in memory_of(held):
                families.add(definition, value, {**labels, "quantity": held.quantity})
    for rate in page.rates:
        if rate.phase in phases:
            labels = {**own, "device": rate.device, "phase": rate.phase, "quantity": rate.quantity}
            families.bounded(activity_of(rate), rate.value, (rate.low, rate.high), labels)


def _add_value(families: Families, own: Labels, value: LiveValue) -> None:
    kind = kind_of(value.device, value.device_kind)
    if kind not in metrics.DEVICE_KINDS:
        return
    labels = {**own, "device": value.device}
    if value.quantity in _GAUGES:
        families.add(_GAUGES[value.quantity][kind], value.value, labels)
    elif value.quantity in _CLOCKS:
        labels["domain"] = _CLOCKS[value.quantity]
        families.add(metrics.DEVICE_CLOCK[kind], value.value, labels)
    elif value.quantity == "power_cap_time":
        labels["reason"] = "power_cap"
        families.add(metrics.DEVICE_THROTTLED[kind], value.value, labels)
    elif value.quantity == "cpu_time":
        families.add(metrics.DEVICE_CPU_TIME[kind], value.value, labels)


def _add_state(families: Families, own: Labels, page: LivePage, now_ns: int) -> None:
    """How far the run is, and whether all is recorded."""
    step = Exemplar({"step": str(page.steps)}, 1.0) if page.steps else None
    families.add(metrics.STEPS, page.steps, own, exemplar=step)
    families.add(metrics.EDGES_LOST, page.edges_lost, own)
    families.add(metrics.SENSOR_GAPS, page.gaps, own)
    silence_s = max(0.0, (now_ns - page.time_ns) / NS_PER_S)
    families.add(metrics.RECORDER_SILENCE, silence_s, own)
    if page.last_edge_ns:
        idle_s = 0.0 if page.final else max(0.0, (now_ns - page.last_edge_ns) / NS_PER_S)
        families.add(metrics.RUN_IDLE, idle_s, own)
    families.add(metrics.RUN_ENDED, float(page.final), own)
