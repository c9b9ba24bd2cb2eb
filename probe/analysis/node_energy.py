"""The whole node's energy beside the sum of its parts.

A node's meter holds the joules of all its parts again, and those that no part's meter sees: fans,
power supplies, the board. Its joules are never added to the parts' and never given to phases; what
lies between the two is stated. Parts that hold more than the node are a contradiction.
"""

from __future__ import annotations

from dataclasses import replace

from ..model import DeviceKind, Provenance, Source
from ..report.model import NodeRow, Totals
from ..units import NS_PER_S
from . import device_energy
from .base import RunAnalysis

_WINDOWS = 2.0  # a mean of a minute says nothing of a run that is shorter than this many minutes
_CLEAR = 0.01  # of the node: what parts may hold more of without a word


def node_row(analysis: RunAnalysis, total: Totals) -> NodeRow | None:
    """What the node's best meter counted over the run; None without one that says anything.

    The node is no single training's: of one in a group there is none.
    """
    if analysis.reader.training is not None:
        return None
    seconds = (analysis.run[1] - analysis.run[0]) / NS_PER_S
    meters = [
        meter
        for meter in analysis.meters
        if _is_node(meter.source)
        and meter.summary.curve is not None
        and seconds >= _WINDOWS * _window_s(meter.source)
    ]
    if not meters:
        return None
    meter = min(meters, key=lambda m: (not m.source.is_energy_counter, _window_s(m.source)))
    source, curve = meter.source, meter.summary.curve
    assert curve is not None
    device = device_energy.DeviceEnergy(source, meter.summary, meter.summary.highest_w)
    energy_j = device_energy.energy_of(curve, analysis.run)
    low, high = device_energy.total_interval(device, analysis.run)
    late_j = _window_s(source) * curve.mean_power_w()  # what a mean shows late, at either end
    interval = max(0.0, low - late_j), high + late_j
    parts = [d for d in analysis.devices if d.source.in_total and d.curve is not None]
    row = NodeRow(
        device=source.device,
        source=source.id,
        method=source.method,
        energy_j=energy_j,
        energy_j_interval=interval,
        parts=tuple(dict.fromkeys(part.name for part in parts)),
        parts_j=total.energy_j if parts else None,
        rest_j=None,
        rest_j_interval=None,
    )
    if row.parts_j is None:
        return row
    part_low, part_high = total.energy_j_interval or (row.parts_j, row.parts_j)
    rest = interval[0] - part_high, interval[1] - part_low
    return replace(row, rest_j=energy_j - row.parts_j, rest_j_interval=rest)


def contradiction(row: NodeRow | None) -> list[str]:
    """A line where the parts' meters count more than the node's."""
    if row is None or row.rest_j_interval is None or row.parts_j is None:
        return []
    above_j = -row.rest_j_interval[1]
    if above_j <= _CLEAR * row.energy_j:
        return []
    return [
        f"the meters of {', '.join(row.parts)} add up to {row.parts_j:.0f} J, but that of the "
        f"whole node ({row.method}) says {row.energy_j:.0f} J: one of them is wrong, or a part "
        "is counted twice"
    ]


def _is_node(source: Source) -> bool:
    return (
        source.device_kind is DeviceKind.PLATFORM
        and source.device == "node"
        and source.provenance is Provenance.MEASURED
        and not source.in_total
    )


def _window_s(source: Source) -> float:
    """Of the mean that a reading is, in s; 0 of a counter."""
    return 0.0 if source.is_energy_counter else source.resolution_s or 0.0
