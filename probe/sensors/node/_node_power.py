"""The source of a controller's power reading, the same for IPMI and Redfish."""

from __future__ import annotations

from ...model import DeviceKind, Kind, Provenance, Source

WINDOW_S = 60.0  # what controllers average over, at most


def node_power(sensor: str, method: str) -> Source:
    """A node's power in W; outside the total, as it holds the joules of all parts again."""
    return Source(
        id=f"{sensor}:node:power",
        device="node",
        device_kind=DeviceKind.PLATFORM,
        quantity="power_average",
        unit="W",
        kind=Kind.GAUGE,
        provenance=Provenance.MEASURED,
        method=method,
        resolution_s=WINDOW_S,
        note="the whole node, a mean of up to 1 min: for totals, not for phases",
    )
