"""RAPL rig: a real powercap tree in a folder, as the kernel lays it out.

::

    rig = RaplRig(tmp_path, sockets=2, dram=True)          # flat links beside nested folders
    rig.spend("intel-rapl:0", joules=3.5)                  # wraps at max_energy_range_uj
    context = SensorContext(powercap_root=rig.root)        # or PROBE_POWERCAP_ROOT in rig.env()

:meth:`RaplRig.powered` spends watts in the background until its block is left. Tests that
need EACCES run in a child with another uid (:func:`as_nobody`), since tests may be root.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

WRAP_UJ = 262_143_328_850  # of one Xeon: about 2**38 µJ
START_UJ = 50_000_000_000
_WIDTH = 20  # one pwrite of a fixed width: no reader ever sees half a number


class RaplRig:
    """``sockets`` packages with the given subdomains; counters stand still until told."""

    def __init__(
        self,
        folder: Path,
        *,
        sockets: int = 1,
        dram: bool = True,
        core: bool = False,
        psys: bool = False,
        mmio: bool = False,
        wrap_uj: int | None = WRAP_UJ,
        start_uj: int = START_UJ,
        flat: bool = True,
        vendor: str = "GenuineIntel",
    ) -> None:
        self.root = folder / "powercap"
        self.proc = folder / "proc"
        self._flat, self._wrap_uj, self._start_uj = flat, wrap_uj, start_uj
        self._devices = folder / "devices"
        self.zones: dict[str, Path] = {}
        self.exact_uj: dict[str, float] = {}
        self.root.mkdir(parents=True)
        self.proc.mkdir()
        (self.proc / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
        for socket in range(sockets):
            key = self.add(f"intel-rapl:{socket}", f"package-{socket}")
            names = [n for n, wanted in (("core", core), ("dram", dram)) if wanted]
            for number, name in enumerate(names):
                self.add(f"{key}:{number}", name)
        if psys:
            self.add(f"intel-rapl:{sockets}", "psys")
        if mmio:
            self.add("intel-rapl-mmio:0", "package-0")

    def add(self, key: str, name: str, start_uj: int | None = None) -> str:
        """A zone; nested ones lie in their parent's folder. Returns the key."""
        control, *numbers = key.split(":")
        tree = self._devices / control
        if not tree.exists():
            tree.mkdir(parents=True)
            (tree / "enabled").write_text("1\n")
            (self.root / control).symlink_to(tree)
        parts = [":".join([control, *numbers[:n]]) for n in range(1, len(numbers) + 1)]
        folder = tree.joinpath(*parts)
        folder.mkdir()
        # As in sysfs: links that lead back up must not send a reader in circles.
        (folder / "subsystem").symlink_to(self.root)
        (folder / "name").write_text(f"{name}\n")
        if self._wrap_uj is not None:
            (folder / "max_energy_range_uj").write_text(f"{self._wrap_uj}\n")
        if self._flat:
            (self.root / key).symlink_to(folder)
        self.zones[key] = folder
        self.set(key, self._start_uj if start_uj is None else start_uj)
        return key

    def env(self) -> dict[str, str]:
        """What makes a run use this tree."""
        return {"PROBE_POWERCAP_ROOT": str(self.root)}

    def set(self, key: str, microjoules: float) -> None:
        """The counter reads this from now on."""
        self.exact_uj[key] = microjoules
        fd = os.open(self.zones[key] / "energy_uj", os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(fd, f"{int(microjoules):<{_WIDTH}}\n".encode(), 0)
        finally:
            os.close(fd)

    def spend(self, key: str, joules: float) -> None:
        """The counter grows, and starts again from 0 at its range."""
        value = self.exact_uj[key] + joules * 1e6
        self.set(key, value % self._wrap_uj if self._wrap_uj else value)

    @contextlib.contextmanager
    def powered(self, watts: Mapping[str, float], every_s: float = 0.001) -> Iterator[None]:
        """Counters that grow in real time, as the hardware's do, about once a millisecond."""
        stop = threading.Event()
        begin_ns, base = time.monotonic_ns(), {key: self.exact_uj[key] for key in watts}

        def run() -> None:
            while not stop.is_set():
                elapsed = (time.monotonic_ns() - begin_ns) / 1e9
                for key, power in watts.items():
                    value = base[key] + power * elapsed * 1e6
                    self.set(key, value % self._wrap_uj if self._wrap_uj else value)
                time.sleep(every_s)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def vanish(self, key: str) -> None:
        """The zone goes away: sysfs fails open descriptors too, a plain file must be cut first."""
        file = self.zones[key] / "energy_uj"
        os.truncate(file, 0)
        file.unlink()

    def forbid(self, key: str | None = None) -> None:
        """As Linux 5.10 and later: only the owner may read."""
        for name in [key] if key else list(self.zones):
            (self.zones[name] / "energy_uj").chmod(0o400)


def as_nobody(check: Callable[[], str | None]) -> str:
    """Run ``check`` in a forked child without privileges; return what it says.

    The child keeps this process's modules, so that it needs no readable checkout.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            os.write(write, (check() or "").encode())
            code = 0
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, said
    return said
