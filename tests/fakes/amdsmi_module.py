"""AMD's ``amdsmi`` as a module of two dies whose power a test sets, with the faults that are known.

``fault``: "frozen" counter, "unit" (× 10⁶), "second die" (reads 0), "wrap" (at 32 bits),
"absent" symbol.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

from probe.clock import Clock

RESOLUTION_UJ = 15.3
DIES = 2


class AmdSmiModule(ModuleType):
    """Put it into ``sys.modules`` with :meth:`install`; a clock says how far its counters are."""

    def __init__(self, clock: Clock, fault: str = "", *, watts: float = 300.0):
        super().__init__("amdsmi")
        self._clock, self.fault = clock, fault
        self._joules = [7_000.0] * DIES
        self._watts = watts
        self._since_ns = clock.now_ns()
        self.users = 0
        self.frozen: dict[int, int] = {}
        if fault == "wrap":  # some 1.5 s before it
            self._joules = [(2**32 * RESOLUTION_UJ * 1e-6) - 1.5 * watts] * DIES

    def install(self, put: Callable[..., None]) -> None:
        """With ``monkeypatch.setitem``; the import system must find a module that has a spec."""
        from importlib.machinery import ModuleSpec

        self.__spec__ = ModuleSpec("amdsmi", None)
        put(sys.modules, "amdsmi", self)

    def set_power(self, watts: float) -> None:
        self._advance()
        self._watts = watts

    def joules(self) -> float:
        """What each die has used since it was made, J."""
        self._advance()
        return self._joules[0]

    def _advance(self) -> None:
        now_ns = self._clock.now_ns()
        seconds = (now_ns - self._since_ns) / 1e9
        self._since_ns = now_ns
        self._joules = [joules + self._watts * seconds for joules in self._joules]

    # -- the library ---------------------------------------------------------------

    def amdsmi_init(self) -> None:
        self.users += 1

    def amdsmi_shut_down(self) -> None:
        self.users -= 1

    def amdsmi_get_processor_handles(self) -> list[int]:
        return list(range(DIES))

    def amdsmi_get_gpu_device_uuid(self, handle: int) -> str:
        return f"a0ff740f-0000-1000-80{handle:02d}-000000000000"

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, str]:
        return {"market_name": "AMD Instinct MI250X"}

    def amdsmi_get_power_info(self, handle: int) -> dict[str, int | str]:
        second = self.fault == "second die" and handle == 1
        watts = 0 if second else round(self._watts)
        return {"current_socket_power": watts, "average_socket_power": "N/A"}

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"module 'amdsmi' has no attribute {name!r}")


def _energy_count(self: AmdSmiModule, handle: int) -> dict[str, int | float]:
    self._advance()
    raw = round(self._joules[handle] * 1e6 / RESOLUTION_UJ)
    resolution = RESOLUTION_UJ
    if self.fault == "frozen":
        raw = self.frozen.setdefault(handle, raw)
    if self.fault == "unit":
        resolution *= 1e6
    if self.fault == "second die" and handle == 1:
        raw = 0
    if self.fault == "wrap":
        raw %= 2**32
    return {"energy_accumulator": raw, "counter_resolution": resolution, "timestamp": 1}


def make(clock: Clock, fault: str = "", *, watts: float = 300.0) -> AmdSmiModule:
    """The module; without the energy call where its symbol is absent."""
    module = AmdSmiModule(clock, "" if fault == "absent" else fault, watts=watts)
    module.fault = fault
    if fault != "absent":
        module.amdsmi_get_energy_count = lambda handle: _energy_count(module, handle)  # type: ignore[attr-defined]
    return module
