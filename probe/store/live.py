"""The live page: what the recorder of each node says about a run that is still going on.

A small file per node, replaced about once a second, gone when the run is sealed. It holds
joules so far and watts now of every device; whoever shows a run while it trains (the trainer's
progress bar, the dashboard) reads this and no samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..model import SCHEMA_VERSION
from . import files
from .layout import node_dir

LIVE_FILE = "live.json"


@dataclass(frozen=True, slots=True)
class LiveDevice:
    """One device's meter: energy from the run's begin to ``time_ns``, and mean power lately."""

    device: str
    source: str
    provenance: str
    energy_j: float
    power_w: float | None  # None: nothing came in lately
    time_ns: int


@dataclass(frozen=True, slots=True)
class Live:
    """All devices of all nodes that say something; times are monotonic."""

    time_ns: int
    devices: tuple[LiveDevice, ...]

    def energy_j(self) -> float | None:
        """Measured energy so far, as in the report's total; None if nothing measures it."""
        measured = [d.energy_j for d in self.devices if d.provenance == "measured"]
        return sum(measured) if measured else None

    def power_w(self) -> float | None:
        """Measured power now; None if a meter is silent or there is none."""
        watts = [d.power_w for d in self.devices if d.provenance == "measured"]
        known = [w for w in watts if w is not None]
        return sum(known) if known and len(known) == len(watts) else None


def write_live(run: Path, time_ns: int, devices: Iterable[LiveDevice]) -> None:
    """Replace this node's page. Raises OSError."""
    page = {"schema": SCHEMA_VERSION, "time_ns": time_ns, "devices": [asdict(d) for d in devices]}
    files.write_json(node_dir(run) / LIVE_FILE, page, compact=True)


def remove_live(run: Path) -> None:
    """The run is over on this node. Raises OSError."""
    (node_dir(run) / LIVE_FILE).unlink(missing_ok=True)


def read_live(run: Path) -> Live | None:
    """What is known of a run now; None if no recorder says anything (or not yet)."""
    pages = [page for path in sorted(run.glob(f"node-*/{LIVE_FILE}"))
             if (page := files.read_json(path)) is not None]
    if not pages:
        return None
    try:
        return Live(max(int(page["time_ns"]) for page in pages),
                    tuple(LiveDevice(**row) for page in pages for row in page["devices"]))
    except (KeyError, TypeError, ValueError):  # of another version
        return None
