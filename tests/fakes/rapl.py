"""A real powercap tree under a folder, with counters that a test moves."""

from __future__ import annotations

from pathlib import Path

MAX_UJ = 262_143_328_850  # as on one Xeon: not a power of two


class RaplRig:
    """``sockets`` packages, each with a DRAM domain if asked, and a platform counter."""

    def __init__(
        self,
        folder: Path,
        *,
        sockets: int = 1,
        dram: bool = True,
        psys: bool = False,
        wrap_uj: int | None = MAX_UJ,
    ):
        self.root = folder / "powercap"
        self._wrap = wrap_uj
        (self.root / "intel-rapl").mkdir(parents=True)
        self.zones: dict[str, Path] = {}
        for socket in range(sockets):
            self._zone(f"intel-rapl:{socket}", f"package-{socket}", self.root)
            if dram:
                self._zone(f"intel-rapl:{socket}:0", "dram", self.root / f"intel-rapl:{socket}")
        if psys:
            self._zone(f"intel-rapl:{sockets}", "psys", self.root)

    def _zone(self, key: str, name: str, parent: Path) -> None:
        folder = parent / key
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        if self._wrap is not None:
            (folder / "max_energy_range_uj").write_text(f"{self._wrap}\n")
        self.zones[key] = folder / "energy_uj"
        self.set(key, 1_000_000)

    def set(self, key: str, microjoules: int) -> None:
        """Write a counter in place, as the kernel shows it: the file stays the same file."""
        text = f"{microjoules % self._wrap if self._wrap else microjoules}\n"
        with open(self.zones[key], "r+" if self.zones[key].exists() else "w") as file:
            file.write(text)
            file.truncate()

    def add(self, joules: float) -> None:
        """Every domain uses as many joules more."""
        for key, path in self.zones.items():
            self.set(key, int(path.read_text()) + round(joules * 1e6))
