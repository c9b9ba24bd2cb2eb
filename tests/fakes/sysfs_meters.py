"""Trees of files as kernels of other makers show their meters, with values that a test moves."""

from __future__ import annotations

from pathlib import Path


def write(file: Path, text: str) -> None:
    """In place, as a kernel does: the file stays the same file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "r+" if file.exists() else "w") as stream:
        stream.write(text)
        stream.truncate()


class CrayNode:
    """``pm_counters`` of a node with two accelerators."""

    FILES = ("energy", "cpu_energy", "memory_energy", "accel0_energy", "accel1_energy")

    def __init__(self, folder: Path):
        self.root = folder / "sys"
        self.folder = self.root / "cray" / "pm_counters"
        self.joules = dict.fromkeys(self.FILES, 1_000_000.0)
        self.generation, self.startup, self.freshness = 7, 3, 100
        self.add(0.0)

    def add(self, node_j: float) -> None:
        """The node uses so many joules: half of them in accelerators."""
        shares = (1.0, 0.2, 0.1, 0.25, 0.25)
        self.freshness += 1
        for name, share in zip(self.FILES, shares, strict=True):
            self.joules[name] += node_j * share
        self.show()

    def show(self) -> None:
        for name, joules in self.joules.items():
            write(self.folder / name, f"{int(joules)} J {self.freshness}00000 us\n")
        for name in ("generation", "startup", "freshness"):
            write(self.folder / name, f"{getattr(self, name)}\n")
        write(self.folder / "power", "900 W 1 us\n")

    def restart(self) -> None:
        """The controller starts again: its counters begin at a low value."""
        self.startup += 1
        self.joules = dict.fromkeys(self.FILES, 50.0)
        self.add(0.0)


class IntelCard:
    """A card of the ``xe`` driver with counters of card and package."""

    def __init__(self, folder: Path, driver: str = "xe"):
        self.root = folder / "sys"
        self.hwmon = self.root / "class/drm/card1/device/hwmon/hwmon4"
        write(self.root / "class/drm/card0/dev", "226:0\n")  # a display without a meter
        write(self.root / "class/drm/card1-DP-1/status", "connected\n")
        write(self.hwmon / "name", f"{driver}\n")
        write(self.hwmon / "energy1_label", "card\n")
        self.microjoules = 5_000_000
        self.add(0.0)

    def add(self, joules: float) -> None:
        self.microjoules += round(joules * 1e6)
        for number in (1, 2):
            write(self.hwmon / f"energy{number}_input", f"{self.microjoules // number}\n")


class JetsonModule:
    """The three rails of an Orin's first monitor."""

    LABELS = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")

    def __init__(self, folder: Path):
        self.root = folder / "sys"
        self.hwmon = self.root / "bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3"
        for number, label in enumerate(self.LABELS, 1):
            write(self.hwmon / f"in{number}_label", f"{label}\n")
        write(self.hwmon / "in7_label", "sum of shunt voltages\n")
        self.set(10.0, 4.0, 20.0)

    def set(self, *watts: float) -> None:
        """Power of the rails in W, at 5 V."""
        for number, power in enumerate(watts, 1):
            write(self.hwmon / f"in{number}_input", "5000\n")
            write(self.hwmon / f"curr{number}_input", f"{round(power / 5 * 1000)}\n")
