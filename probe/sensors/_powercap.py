"""The Linux powercap tree: which RAPL domains there are, and which can be read.

``/sys/class/powercap`` lists every zone as a link beside its control type, and the
control type holds the same zones as nested folders; a container may show only one of
both. A zone is keyed by its path (``intel-rapl:0:1``), never by its ``name``: two
sockets both have a ``dram``. Energies are microjoules since start-up or wraparound.
AMD fills the same tree, with packages (and one core) only.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..clock import Clock

_ZONE = re.compile(r"intel-rapl(-mmio)?:\d+(:\d+)*")
_PACKAGE = re.compile(r"package-(\d+)(?:-die-(\d+))?")
_VENDORS = {"intel": "GenuineIntel", "amd": "AuthenticAMD"}
_MIRROR_UJ = 500_000  # two dies' own counters are never this close; copies are
_STILL_S = 0.003  # counters move once a millisecond

NO_TREE = "no RAPL here: a virtual machine, or a kernel without intel_rapl"
NO_READ = "energy_uj may be read by root only (Linux 5.10 and later, CVE-2020-8694)"


@dataclass(frozen=True, slots=True)
class Zone:
    """One energy counter of the tree, or the reason why it cannot be used."""

    key: str  # intel-rapl:0:1
    kind: str  # package, dram, core, uncore, psys or another name
    device: str  # cpu0, cpu0-die1, dram0, core0, psys
    file: Path
    wrap_uj: int | None = None  # where it starts again from 0; None: unknown
    problem: str = ""  # why it is not read
    remedy: str | None = None

    @property
    def usable(self) -> bool:
        """True if the zone's counter can be read here."""
        return not self.problem


def scan(root: Path, proc: Path, clock: Clock) -> list[Zone]:
    """All RAPL zones below ``root``, each tried once. Never raises."""
    folders = dict(sorted(_folders(root), key=lambda item: _order(item[0])))
    labels = {key: _text(folder / "name") or "" for key, folder in folders.items()}
    zones: list[Zone] = []
    for key, folder in folders.items():
        kind, device = _identity(key, labels)
        zone = Zone(key, kind, device, folder / "energy_uj", _wrap(folder))
        zones.append(_tried(zone, root, clock))
    return _without_copies(zones, amd=cpu_vendor(proc) == "amd")


def measured_devices(root: Path, proc: Path, clock: Clock) -> set[str]:
    """What RAPL measures here: a subset of {"cpu", "ram"}; used to leave models out."""
    kinds = {zone.kind for zone in scan(root, proc, clock) if zone.usable}
    cpu = {"cpu"} if kinds & {"package", "psys"} else set()
    # A platform counter alone covers the memory too.
    return cpu | ({"ram"} if "dram" in kinds or kinds == {"psys"} else set())


def read_uj(fd: int) -> int:
    """The counter behind an open ``energy_uj``. Raises OSError or ValueError."""
    text = os.pread(fd, 32, 0)
    if not text:
        raise OSError(errno.ENODEV, "the file is empty")
    return int(text)


def _folders(root: Path, depth: int = 0) -> Iterator[tuple[str, Path]]:
    try:
        entries = [Path(entry.path) for entry in os.scandir(root) if entry.is_dir()]
    except OSError:
        return
    for folder in entries:
        if _ZONE.fullmatch(folder.name):
            if (folder / "energy_uj").exists():
                yield folder.name, folder
        elif not folder.name.startswith("intel-rapl") or depth:
            continue  # subsystem, power, device: links that lead in circles
        if depth < 3:
            yield from _folders(folder, depth + 1)


def _order(key: str) -> tuple[str, tuple[int, ...]]:
    control, *numbers = key.split(":")
    return control, tuple(map(int, numbers))


def _identity(key: str, labels: dict[str, str]) -> tuple[str, str]:
    """Kind and device of a zone; a nested one belongs to its parent's package."""
    label = labels[key]
    top = key if key.count(":") == 1 else ":".join(key.split(":")[:2])
    package = _PACKAGE.fullmatch(labels.get(top, ""))
    if package is None:
        socket = "" if label == "psys" and top == key else key.split(":", 1)[1].replace(":", "-")
    else:
        socket = package[1] + (f"-die{package[2]}" if package[2] else "")
    if top == key and package is not None:
        return "package", f"cpu{socket}"
    name = label or "zone"
    return name, f"{name}{socket}"


def _wrap(folder: Path) -> int | None:
    text = _text(folder / "max_energy_range_uj")
    return int(text) if text and text.isdigit() and int(text) > 0 else None


def _tried(zone: Zone, root: Path, clock: Clock) -> Zone:
    try:
        fd = os.open(zone.file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM):
            return replace(zone, problem=_unreadable(error))
        control = zone.key.partition(":")[0]
        tree = root / control if (root / control).is_dir() else root / zone.key
        remedy = f"sudo chmod -R a+r {tree}  # until the next restart of the machine"
        return replace(zone, problem=NO_READ, remedy=remedy)
    try:
        if read_uj(fd) == 0:
            clock.sleep(_STILL_S)
            if read_uj(fd) == 0:
                return replace(zone, problem="the counter stands at 0: nothing is behind it")
    except (OSError, ValueError) as error:
        return replace(zone, problem=_unreadable(error))
    finally:
        os.close(fd)
    return zone


def _unreadable(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"energy_uj cannot be read: {text}"


def _without_copies(zones: list[Zone], *, amd: bool) -> list[Zone]:
    """Mark the counters that show a joule which another one shows already."""
    out: list[Zone] = []
    for zone in zones:
        if zone.usable and amd and zone.kind == "core":
            zone = replace(zone, problem="on AMD this counter covers one core, not the package")
        twin = next((z for z in out if z.usable and z.device == zone.device), None)
        if zone.usable and twin is not None:  # intel-rapl-mmio, a second way to one counter
            zone = replace(zone, problem=f"the same counter as {twin.key}: not counted twice")
        if zone.usable and "-die" in zone.device and zone.kind == "package":
            value = _value(zone)
            for other in out:
                same = other.usable and other.kind == "package" and _socket(other) == _socket(zone)
                if same and abs(_value(other) - value) < _MIRROR_UJ:
                    zone = replace(zone, problem=f"a mirror of {other.key}: not counted twice")
        out.append(zone)
    return out


def _socket(zone: Zone) -> str:
    return zone.device.partition("-die")[0]


def _value(zone: Zone) -> int:
    return int(_text(zone.file) or 0)


def cpu_vendor(proc: Path) -> str:
    """intel, amd or empty, from the first lines of cpuinfo."""
    try:
        with (proc / "cpuinfo").open() as file:
            head = file.read(1000)
    except OSError:
        return ""
    return next((name for name, id_ in _VENDORS.items() if id_ in head), "")


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
