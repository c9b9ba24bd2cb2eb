"""Power rails of NVIDIA Jetson modules: the INA3221 monitors that the kernel shows in hwmon.

A rail is named by ``inN_label``; ``inN_input`` is mV, ``currN_input`` mA, and their product its
power in µW. Rails of GPU and CPU count into the total; the module's input holds them all again and
is the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from ...errors import SensorUnavailable
from ...model import DeviceKind, Kind, Provenance, Source
from ...units import NS_PER_MS
from .._polled import PolledMeter, PolledSensor
from .kernel_file import read_kernel_file

PERIOD_NS = 50 * NS_PER_MS
_W_PER_MV_MA = 1e-6
_LABEL = re.compile(r"in(\d+)_label")
_MOST_W = 1_000.0


class Rail(NamedTuple):
    """A monitored rail: its name and the files of its voltage and current."""

    label: str
    volts: Path
    amps: Path


class JetsonSensor(PolledSensor):
    """Power of the GPU, the CPU and the whole module."""

    name: ClassVar[str] = "jetson"

    def find(self) -> list[PolledMeter]:
        """A meter per rail whose kind its label says."""
        rails = list(ina3221_rails(self.context.sys_root))
        if not rails:
            raise SensorUnavailable("no INA3221 power monitor here: not a Jetson module")
        meters: list[PolledMeter] = []
        devices: set[str] = set()
        for rail in rails:
            device = device_of(rail.label)
            if not device:
                self.absence(f"rail {rail.label}", "which device it feeds is not known")
                continue
            if device in devices:
                self.absence(f"rail {rail.label}", f"a second rail of {device}")
                continue
            call = _watts(rail)
            try:
                call()
            except (OSError, ValueError) as error:
                self.absence(f"rail {rail.label}", f"cannot be read: {error}")
                continue
            devices.add(device)
            meters.append(PolledMeter(_source(rail.label, device), call, PERIOD_NS))
        return meters


def ina3221_rails(sys_root: Path) -> Iterator[Rail]:
    """All named rails of all monitors."""
    folders = sorted((sys_root / "bus" / "i2c" / "drivers" / "ina3221").glob("*/hwmon/hwmon*"))
    for folder in folders:
        for file in sorted(folder.glob("in*_label")):
            match = _LABEL.fullmatch(file.name)
            try:
                label = file.read_text(errors="replace").strip()
            except OSError:
                continue
            if match is not None and label and "sum" not in label.lower():
                number = match[1]
                yield Rail(label, folder / f"in{number}_input", folder / f"curr{number}_input")


def device_of(label: str) -> str:
    """The device that a rail of this name feeds; empty if its name does not say."""
    name = label.upper()
    if "GPU" in name:
        return "gpu0"
    if "CPU" in name:
        return "cpu0"
    return "node" if name in ("VDD_IN", "VIN_SYS_5V0", "POM_5V_IN", "POM_IN") else ""


def _watts(rail: Rail) -> Callable[[], float]:
    def call() -> float:
        product = int(read_kernel_file(rail.volts)) * int(read_kernel_file(rail.amps))
        if not 0 <= product * _W_PER_MV_MA <= _MOST_W:
            raise ValueError(f"{rail.label} reads {product} µW")
        return float(product)

    return call


def _source(label: str, device: str) -> Source:
    kind = {"gpu0": DeviceKind.ACCELERATOR, "cpu0": DeviceKind.CPU}.get(device, DeviceKind.PLATFORM)
    part = kind is not DeviceKind.PLATFORM
    return Source(
        id=f"jetson:{label}:power",
        device=device,
        device_kind=kind,
        vendor="nvidia",
        quantity="power",
        unit="W",
        kind=Kind.GAUGE,
        provenance=Provenance.MEASURED,
        scale=_W_PER_MV_MA,
        method="power-integral" if part else "ina3221",
        in_total=part,
        note=f"rail {label}" if part else f"the whole module ({label}): holds its parts again",
    )
