"""Cray's ``pm_counters``: joules of the whole node and of its parts, some ten times a second.

Below ``/sys/cray/pm_counters`` a file has a number, its unit and a stamp in µs of a clock of its
own. ``startup`` counts how often the controller began: values before and after it moved have
nothing to do with each other. ``generation`` counts changes of the node's power cap: the counters
go on, and a gap's reason names the change. ``freshness`` counts the scans: if it stops, the
controller hangs. All the node's joules hold those of CPUs, memory and accelerators again, so the
node never counts into the total.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...errors import SensorUnavailable
from ...model import DeviceKind, Kind, Provenance, Source
from ...units import NS_PER_MS, NS_PER_S
from .._polled import CounterAnew, PolledMeter, PolledSensor
from .._powercap import measured_devices
from ..base import SensorContext
from ..sysfs.kernel_file import read_kernel_file

PERIOD_NS = 100 * NS_PER_MS  # of a scan
_TOGETHER_NS = 5 * NS_PER_MS  # files that are read so soon after each other share a look
STILL_NS = 5 * NS_PER_S
NOT_HERE = "no /sys/cray/pm_counters here: not a node of an HPE Cray EX or XC"
_VALUE = re.compile(r"\s*(\d+)\s*([A-Za-z]*)")
_DEVICES = {  # file → device, and of which kind
    "energy": ("node", DeviceKind.PLATFORM),
    "cpu_energy": ("cpu", DeviceKind.CPU),
    "memory_energy": ("ram", DeviceKind.DRAM),
}
_ACCELERATOR = re.compile(r"accel(\d+)_energy")


class PmCountersSensor(PolledSensor):
    """Energy of a Cray node, of its CPUs, memory and accelerators."""

    name: ClassVar[str] = "pm_counters"

    def find(self) -> list[PolledMeter]:
        """A meter per energy file that can be read."""
        folder = self.context.sys_root / "cray" / "pm_counters"
        if not folder.is_dir():
            raise SensorUnavailable(NOT_HERE)
        controller = _Controller(folder, self.context, self.warnings)
        meters = []
        counted = self._counted()
        for file in sorted(folder.glob("*energy")):
            device, kind = _device(file.name)
            if not device:
                continue
            try:
                first = read_number(file, "J")
            except (OSError, ValueError) as error:
                self.absence(f"pm_counters {file.name}", str(error))
                continue
            if not first:
                reason = "it stands at 0: nothing is behind it"
                self.absence(f"pm_counters {file.name}", reason)
                continue
            source = _source(file.name, device, kind, in_total=device in counted)
            meters.append(PolledMeter(source, controller.reader(file), PERIOD_NS))
        if not meters and not self.absent:
            raise SensorUnavailable(f"{folder} has no energy counter")
        return meters

    def _counted(self) -> set[str]:
        """The parts whose joules no other meter counts here."""
        context = self.context
        measured = measured_devices(context.powercap_root, context.proc_root, context.clock)
        return {"cpu", "ram"} - measured


@dataclass
class _Controller:
    """What all files of the folder share: whether their counters go on."""

    folder: Path
    context: SensorContext
    warnings: list[str]

    def __post_init__(self) -> None:
        self._cap = self._number("generation")
        self._fresh, self._fresh_ns = self._number("freshness"), self.context.clock.now_ns()
        self._startup = self._number("startup")
        self._looked_ns = self._fresh_ns

    def reader(self, file: Path) -> _File:
        return _File(self, file, self._startup)

    def startup(self) -> int | None:
        """How often the controller has begun; raises OSError if it hangs."""
        now_ns = self.context.clock.now_ns()
        if now_ns - self._looked_ns < _TOGETHER_NS:
            return self._startup
        fresh = self._number("freshness")
        if fresh is None or fresh != self._fresh:
            self._fresh, self._fresh_ns = fresh, now_ns
        elif now_ns - self._fresh_ns > STILL_NS:
            raise ValueError("its controller has scanned nothing for 5 s (freshness stands still)")
        cap = self._number("generation")
        if cap != self._cap:
            self._cap = cap
            line = "pm_counters: the node's power cap was changed during the run"
            if line not in self.warnings:
                self.warnings.append(line)
        self._startup, self._looked_ns = self._number("startup"), now_ns
        return self._startup

    def _number(self, name: str) -> int | None:
        try:
            return read_number(self.folder / name)
        except (OSError, ValueError):
            return None


@dataclass
class _File:
    """One counter, read between two looks at the controller."""

    controller: _Controller
    file: Path
    startup: int | None

    def __call__(self) -> float:
        before, self.startup = self.startup, self.controller.startup()
        if self.startup != before:
            raise CounterAnew
        return read_number(self.file, "J")


def read_number(file: Path, unit: str = "") -> int:
    """The number at the beginning of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: there is none, or it is of another unit.
    """
    text = read_kernel_file(file)[:100]
    match = _VALUE.match(text)
    if match is None:
        raise ValueError(f"{file.name} reads {text.strip()!r}")
    if unit and match[2] and match[2] != unit:
        raise ValueError(f"{file.name} is in {match[2]}, not {unit}")
    return int(match[1])


def _device(file: str) -> tuple[str, DeviceKind]:
    if (match := _ACCELERATOR.fullmatch(file)) is not None:
        return f"accel{match[1]}", DeviceKind.OTHER
    return _DEVICES.get(file, ("", DeviceKind.OTHER))


def _source(file: str, device: str, kind: DeviceKind, *, in_total: bool) -> Source:
    notes = {
        "node": "the whole node: holds the joules of its parts again",
        "cpu": "" if in_total else "RAPL counts it",
        "ram": "" if in_total else "RAPL counts it",
    }
    return Source(
        id=f"pm_counters:{file}",
        device=device,
        device_kind=kind,
        vendor="cray",
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        provenance=Provenance.MEASURED,
        method="pm_counters",
        resolution_s=None,
        in_total=in_total,
        dated=False,  # it moves ten times a second, at instants that 20 reads do not tell
        note=notes.get(device, "an accelerator: its own meter counts it"),
    )
