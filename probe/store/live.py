"""The live page: what the recorder of each node knows of a run that is still going on.

A small file per node, replaced every second or two; the last one is marked as final. Everything
that shows a run while it trains (the trainer's progress bar, the Prometheus endpoint, the
dashboard) reads this and no samples. Estimates cost time: they are made often only while a viewer
of phases touches a file in the run's directory.
"""

from __future__ import annotations

import contextlib
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..model import SCHEMA_VERSION
from . import files
from .field_kinds import is_whole
from .layout import LOOKED_FILE, node_dir
from .new_files import make_for_readers, rewrite, touch

LIVE_FILE = "live.json"
LOST_S = 60.0  # a recorder whose page is older is dead
_LOOKING_S = 30.0  # a viewer is gone after this time without a touch; scrapes come as often


@dataclass(frozen=True, slots=True)
class LiveDevice:
    """One device's meter: energy from the run's begin to ``time_ns``, and mean power lately."""

    device: str
    source: str
    provenance: str
    energy_j: float
    power_w: float | None  # None: nothing came in lately
    time_ns: int
    uuid: str = ""
    device_kind: str = ""


@dataclass(frozen=True, slots=True)
class LivePhase:
    """Joules of a phase on a device.

    ``given_j`` never falls; over a device's phases it adds up to the device's energy. ``energy_j``
    is the best estimate with its 95 % interval, carried on to the time of the page at the phase's
    power; None while the phase cannot be resolved.
    """

    phase: str
    device: str
    given_j: float
    energy_j: float | None = None
    low_j: float | None = None
    high_j: float | None = None
    status: str = "not_identifiable"


@dataclass(frozen=True, slots=True)
class LiveTime:
    """How long and how often a rank was in a phase, on the host clock."""

    phase: str
    rank: int
    seconds: float
    count: int


@dataclass(frozen=True, slots=True)
class LiveMemory:
    """Bytes that a rank held in a phase so far, as :class:`~probe.report.model.MemoryRow`."""

    phase: str
    rank: int
    device: str
    quantity: str
    source: str
    mean_bytes: float
    peak_bytes: float
    peak_at_most_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class LiveRate:
    """How busy a phase kept a unit of a device, with its 95 % interval; a share, or CPU cores."""

    phase: str
    device: str
    quantity: str
    source: str
    value: float
    low: float
    high: float
    status: str


@dataclass(frozen=True, slots=True)
class LiveValue:
    """The newest value of any meter, in its base unit."""

    device: str
    quantity: str
    kind: str
    value: float
    time_ns: int
    device_kind: str = ""


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page of one node; times are monotonic, ``final`` once the run has ended."""

    time_ns: int
    wall_s: float  # the same instant since 1970
    node: str = ""
    final: bool = False
    steps: int = 0
    edges_lost: int = 0
    gaps: int = 0
    last_edge_ns: int = 0
    devices: tuple[LiveDevice, ...] = ()
    phases: tuple[LivePhase, ...] = ()
    times: tuple[LiveTime, ...] = ()
    values: tuple[LiveValue, ...] = ()
    memory: tuple[LiveMemory, ...] = ()
    rates: tuple[LiveRate, ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """The pages of all nodes of a run that have one."""

    pages: tuple[LivePage, ...]

    @property
    def time_ns(self) -> int:
        """When the newest page was written."""
        return max(page.time_ns for page in self.pages)

    @property
    def devices(self) -> tuple[LiveDevice, ...]:
        """The devices of all nodes; named ``<node>/gpu0`` if there are several."""
        if len(self.pages) == 1:
            return self.pages[0].devices
        return tuple(
            replace(device, device=f"{page.node}/{device.device}")
            for page in self.pages
            for device in page.devices
        )

    def energy_j(self) -> float | None:
        """Measured energy so far, as in the report's total; None if nothing measures it."""
        measured = [d.energy_j for d in self.devices if d.provenance == "measured"]
        return sum(measured) if measured else None

    def modelled_energy_j(self) -> float | None:
        """Joules so far of the devices that only have a model; None without any."""
        joules = [d.energy_j for d in self.devices if d.provenance == "modelled"]
        return sum(joules) if joules else None

    def power_limit_w(self) -> float | None:
        """The devices' power limits together; None if none is known."""
        limits = [
            value.value
            for page in self.pages
            for value in page.values
            if value.quantity == "power_limit"
        ]
        return sum(limits) if limits else None

    def power_w(self) -> float | None:
        """Measured power now; None if a meter is silent or there is none."""
        watts = [d.power_w for d in self.devices if d.provenance == "measured"]
        readings = [w for w in watts if w is not None]
        return sum(readings) if readings and len(readings) == len(watts) else None


_ROWS = {
    "devices": LiveDevice,
    "phases": LivePhase,
    "times": LiveTime,
    "values": LiveValue,
    "memory": LiveMemory,
    "rates": LiveRate,
}


def write_live(run: Path, page: LivePage) -> None:
    """Replace this node's page. Raises OSError."""
    value = _fields(page) | {"schema": SCHEMA_VERSION}
    for name in _ROWS:
        value[name] = [_fields(row) for row in getattr(page, name)]
    files.write_json(node_dir(run) / LIVE_FILE, value, compact=True, checked=True)


_Row = LivePage | LiveDevice | LivePhase | LiveTime | LiveValue | LiveMemory | LiveRate


def _fields(row: _Row) -> dict[str, object]:
    """Shallow: ``asdict`` copies every value, and this is done up to four times a second."""
    return {name: getattr(row, name) for name in row.__slots__}


def look_live(run: Path, *, linger_s: float = 0.0) -> Live | None:
    """:func:`read_live` for a viewer of phases: asks running recorders for frequent estimates.

    All who may read a run may ask. A read-only mount allows no request: estimates are older there.
    """
    live = read_live(run, linger_s=linger_s)
    if live is not None and not all(page.final for page in live.pages):
        with contextlib.suppress(OSError):
            touch(run / LOOKED_FILE)
    return live


def read_live(run: Path, *, linger_s: float = 0.0) -> Live | None:
    """The live pages of a run; None if there is none yet, or none that is recent.

    Args:
        linger_s: how long after a run's end its final page still counts.
    """
    now_s = time.time()
    per_host = [_page(files.read_json(path)) for path in sorted(run.glob(f"node-*/{LIVE_FILE}"))]
    pages = [
        page
        for page in per_host
        if page is not None and now_s - page.wall_s < (linger_s if page.final else LOST_S)
    ]
    return Live(tuple(pages)) if pages else None


class ViewerWatch:
    """Tells a recorder whether the estimates of its run have a viewer."""

    def __init__(self, run: Path):
        self._path = run / LOOKED_FILE
        self._changed_ns = 0  # by the viewer's clock, so only a change of it means anything
        self._looked_s = -_LOOKING_S
        with contextlib.suppress(OSError):  # it is there, or nothing can be written
            self._changed_ns = make_for_readers(self._path)

    def active(self, now_s: float) -> bool:
        """Whether :func:`look_live` was called lately; ``now_s`` is monotonic."""
        with contextlib.suppress(OSError):
            status = self._path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mtime_ns != self._changed_ns:
                self._changed_ns, self._looked_s = status.st_mtime_ns, now_s
            if status.st_size:  # a reader wrote into it: it takes no space of the owner's
                rewrite(self._path, b"")
        return now_s - self._looked_s < _LOOKING_S


def _page(value: Any) -> LivePage | None:
    """The page of one node; None if another version wrote it."""
    if not isinstance(value, dict) or value.pop("schema", None) != SCHEMA_VERSION:
        return None
    try:
        for name, kind in _ROWS.items():
            value[name] = tuple(kind(**row) for row in value.get(name, ()))
        page = LivePage(**value)
        timed = isinstance(page.wall_s, (int, float)) and is_whole(page.time_ns)
        return page if timed else None
    except (KeyError, TypeError):
        return None
