"""Energy of Intel GPUs by the hwmon files of the kernel's ``xe`` and ``i915`` drivers, in µJ.

A card may have several counters (``energy1_input`` of the card, ``energy2_input`` of its package):
the first one that moves counts, since the others lie inside it. The kernel takes care of wraps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from ...errors import SensorUnavailable
from ...model import DeviceKind, Kind, Provenance, Source
from ...units import J_PER_UJ, NS_PER_MS
from .._polled import PolledMeter, PolledSensor
from ..device_selection import Identity, select
from .kernel_file import read_kernel_file

PERIOD_NS = 20 * NS_PER_MS
VENDOR = "intel"
_DRIVERS = ("xe", "i915")
_CARD = re.compile(r"card(\d+)")
_STILL_S = 0.03
_MOST_W = 5_000.0


class IntelGpuSensor(PolledSensor):
    """Energy counters of the selected Intel GPUs."""

    name: ClassVar[str] = "intel_gpu"

    def find(self) -> list[PolledMeter]:
        """A meter per selected card whose counter moves."""
        cards = intel_cards(self.context.sys_root)
        if not cards:
            raise SensorUnavailable("no Intel GPU here that shows energy (hwmon of xe or i915)")
        identities = [Identity(index=index) for index in range(len(cards))]
        selection = select(identities, self.context.requests, VENDOR)
        self.warnings += selection.warnings
        meters = [
            meter
            for index in selection.indices
            if (meter := self._meter(index, cards[index])) is not None
        ]
        if not meters and not self.absent:
            raise SensorUnavailable(f"no Intel GPU is selected ({selection.rule})")
        return meters

    def _meter(self, index: int, folder: Path) -> PolledMeter | None:
        for file in sorted(folder.glob("energy*_input")):
            try:
                first = int(file.read_text())
                self.context.clock.sleep(_STILL_S)
                moves = int(file.read_text()) != first
            except (OSError, ValueError) as error:
                remedy = f"sudo chmod a+r {file}" if isinstance(error, PermissionError) else None
                self.absence(f"Intel GPU {index} {file.name}", f"cannot be read: {error}", remedy)
                continue
            if moves or first:
                # One that stands may only be idle; one at 0 has nothing behind it.
                source = _source(index, folder, file)
                return PolledMeter(source, _reader(file), PERIOD_NS, _MOST_W)
            self.absence(f"Intel GPU {index} {file.name}", "the counter stands at 0")
        return None


def intel_cards(sys_root: Path) -> list[Path]:
    """The hwmon folder of each Intel card with an energy counter, by the card's number."""
    numbered: list[tuple[int, Path]] = []
    try:
        cards = list((sys_root / "class" / "drm").iterdir())
    except OSError:
        return []
    for card in cards:
        match = _CARD.fullmatch(card.name)
        if match is None:
            continue
        for folder in sorted((card / "device" / "hwmon").glob("hwmon*")):
            if _text(folder / "name") in _DRIVERS and any(folder.glob("energy*_input")):
                numbered.append((int(match[1]), folder))
                break
    return [folder for _, folder in sorted(numbered)]


def _reader(file: Path) -> Callable[[], float]:
    return lambda: int(read_kernel_file(file))


def _source(index: int, folder: Path, file: Path) -> Source:
    label = _text(folder / file.name.replace("_input", "_label")) or "card"
    return Source(
        id=f"intel_gpu:{index}:energy",
        device=f"gpu{index}",
        device_kind=DeviceKind.ACCELERATOR,
        vendor=VENDOR,
        index=index,
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        provenance=Provenance.MEASURED,
        scale=J_PER_UJ,
        method=f"hwmon {_text(folder / 'name')}",
        in_total=True,
        note=f"{label}: {file.name}",
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
