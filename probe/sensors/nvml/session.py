"""What the NVML sensors share: one session, one way to call and to fail.

pynvml is imported on first use. Everything but nvmlInit, the device count and the
handles is optional: a call that fails is a reason, never an exception. NVML is
initialised by the first sensor and shut down by the last one of the process.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from ...clock import Clock
from ...errors import SensorUnavailable
from ...units import NS_PER_S

T = TypeVar("T")

# NVML return codes that mean the device or the driver is gone, not just this call.
LOST_CODES = frozenset({1, 9, 15, 16, 28})  # uninitialized, no driver, lost, reset, GPU not found
FUNCTION_NOT_FOUND = 13
_ALL_ONES = (0xFFFFFFFF, 2**64 - 1, 2**63 - 1)
ZERO_WAIT_NS = NS_PER_S // 4  # a counter that reads 0 has this long to move


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that gave no value: NVML's return code (None: not from NVML) and its message."""

    reason: str
    code: int | None = None

    @property
    def lost(self) -> bool:
        """True if the device or the driver is gone."""
        return self.code in LOST_CODES


def attempt(call: Callable[[], T]) -> T | Failed:
    """Run one NVML call; whatever goes wrong becomes a :class:`Failed`."""
    try:
        return call()
    except Exception as error:  # NVMLError, OSError, ctypes errors
        return failed(error)


def failed(error: Exception) -> Failed:
    """An exception as a :class:`Failed`, with NVML's code and message where it is NVML's."""
    code = getattr(error, "value", None)
    text = str(error) or type(error).__name__
    if isinstance(code, int):
        name = "the driver has no such function" if code == FUNCTION_NOT_FOUND else text
        return Failed(f"NVML: {name}", code)
    return Failed(f"{type(error).__name__}: {text}")


class Session:
    """An initialised NVML. Take one with :meth:`open`, give it back with :meth:`close`."""

    _lock = threading.Lock()
    _users = 0
    _inits = 0
    _counters: ClassVar[dict[int, int | Failed]] = {}  # answers of probe_counter
    _distrusted: ClassVar[set[int]] = set()  # devices whose counter disagrees with their power

    def __init__(self, nvml: ModuleType) -> None:
        self.nvml: Any = nvml
        self._open = True

    @classmethod
    def open(cls) -> Session:
        """Load the library and initialise it.

        Raises:
            SensorUnavailable: no library, no driver, versions that do not match, …
        """
        try:
            import pynvml
        except ImportError as error:
            reason = "the Python package nvidia-ml-py (pynvml) cannot be imported"
            raise SensorUnavailable(reason, "pip install nvidia-ml-py") from error
        with cls._lock:
            if not cls._users:
                outcome = attempt(pynvml.nvmlInit)
                if isinstance(outcome, Failed):
                    raise unavailable(outcome)
                cls._inits = 1
            cls._users += 1
        return cls(pynvml)

    def close(self) -> None:
        """Shut NVML down if this was the last user. Idempotent, never raises."""
        with Session._lock:
            if self._open:
                self._open = False
                Session._users -= 1
                if not Session._users:
                    Session._counters.clear()
                    Session._distrusted.clear()
                    for _ in range(Session._inits):  # NVML counts them too
                        attempt(self.nvml.nvmlShutdown)

    def revive(self) -> None:
        """Initialise again after the driver was reloaded under us (code 1)."""
        with Session._lock:
            if not isinstance(attempt(self.nvml.nvmlInit), Failed):
                Session._inits += 1

    def function(self, name: str) -> Any | None:
        """The C function ``name`` as a ctypes object of our own, None where it is missing.

        It skips pynvml's wrapper: a counter read is a few microseconds in C and is made
        some 30 times a second and GPU, so the wrapper would cost more than the reading.
        """
        try:
            function = self.nvml.nvmlLib[name]  # [] makes a new object, attributes are shared
        except Exception:
            return None
        function.restype = ctypes.c_int
        return function

    def driver(self) -> str:
        """The driver's version."""
        version = attempt(self.nvml.nvmlSystemGetDriverVersion)
        return "unknown" if isinstance(version, Failed) else str(version)

    def fetch_handle(self, index: int) -> Any:
        """The handle of a device (nvmlDeviceGetHandleByIndex), or :class:`Failed`."""
        return attempt(lambda: self.nvml.nvmlDeviceGetHandleByIndex(index))

    def probe_counter(self, index: int, handle: Any, clock: Clock) -> int | Failed:
        """A device's energy counter in mJ, by ``nvmlDeviceGetTotalEnergyConsumption``.

        Probed once for all sensors: its answer decides whether energy or power counts
        into the total, and two different answers would count a joule twice.
        """
        with Session._lock:
            if index not in Session._counters:
                Session._counters[index] = self._probe_counter(handle, clock)
            return Session._counters[index]

    def distrust(self, index: int, *, again: bool = False) -> None:
        """Tell the other sensors that a device's counter is not to be used, or is ``again``."""
        with Session._lock:
            (Session._distrusted.discard if again else Session._distrusted.add)(index)

    def is_distrusted(self, index: int) -> bool:
        """True if a device's counter disagrees with its power."""
        return index in Session._distrusted

    def _probe_counter(self, handle: Any, clock: Clock) -> int | Failed:
        call = self.nvml.nvmlDeviceGetTotalEnergyConsumption
        value = attempt(lambda: call(handle))
        deadline_ns = clock.now_ns() + ZERO_WAIT_NS
        while value == 0 and clock.now_ns() < deadline_ns:  # fresh driver, or no counter at all
            clock.sleep(0.01)
            value = attempt(lambda: call(handle))
        if value == 0:
            power = attempt(lambda: self.nvml.nvmlDeviceGetPowerUsage(handle))
            if isinstance(power, int) and power > 0:
                return Failed("the counter stays at 0 while power is drawn")
        if not isinstance(value, Failed) and not plausible_counter(value):
            return Failed(f"the counter reads {value}")
        return value


def plausible_counter(value: object) -> bool:
    """Could this be an energy counter's reading in mJ? Drivers answer all ones for none."""
    return isinstance(value, int) and value >= 0 and value not in _ALL_ONES


_REMEDIES: dict[int, tuple[str, str]] = {
    12: (
        "no NVIDIA driver: libnvidia-ml.so.1 not found",
        "install the NVIDIA driver (in a container: docker run --gpus all)",
    ),
    9: ("the NVIDIA driver is installed but not loaded", "sudo modprobe nvidia"),
    18: (
        "the NVIDIA driver and its library have different versions",
        "reboot, or sudo rmmod nvidia_uvm nvidia && sudo modprobe nvidia",
    ),
    4: ("no permission to talk to the NVIDIA driver", "allow this user on /dev/nvidia*"),
    13: ("libnvidia-ml.so.1 lacks a function that is needed", "update the NVIDIA driver"),
}


def unavailable(outcome: Failed) -> SensorUnavailable:
    """Why NVML cannot be used at all, with the remedy."""
    if outcome.code in _REMEDIES:
        return SensorUnavailable(*_REMEDIES[outcome.code])
    return SensorUnavailable(f"NVML does not start: {outcome.reason}", None)
