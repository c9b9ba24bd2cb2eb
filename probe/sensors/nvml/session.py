"""What the NVML sensors share: one session, the devices, one way to call and to fail.

pynvml is imported on first use. Everything but nvmlInit, the device count and the
handles is optional: a call that fails is a reason, never an exception. NVML is
initialised by the first sensor and shut down by the last one of the process.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from ...errors import SensorUnavailable
from ...model import Absence, DeviceRequest
from ..device_selection import Identity, Selection, select

T = TypeVar("T")

# NVML return codes that mean the device or the driver is gone, not just this call.
LOST_CODES = frozenset({1, 9, 15, 16, 28})  # uninitialized, no driver, lost, reset, GPU not found
FUNCTION_NOT_FOUND = 13
AMPERE = 7
_GA100 = {"A100", "A800", "A30", "170HX"}  # Ampere, but their power reading is instant
_VGPU_MODES = {2: "vGPU guest", 3: "vGPU host"}  # NVML_GPU_VIRTUALIZATION_MODE_*
_ALL_ONES = (0xFFFFFFFF, 2**64 - 1, 2**63 - 1)
ZERO_WAIT_S = 0.25  # a counter that reads 0 has this long to move
MIG_NOTE = "power is that of the whole card, shared by MIG instances"


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that gave no value: NVML's return code (None: not from NVML) and its words."""

    reason: str
    code: int | None = None

    @property
    def lost(self) -> bool:
        return self.code in LOST_CODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A selected GPU. ``label`` stands in source ids: the UUID, or index-N without one."""

    index: int
    handle: Any
    label: str
    uuid: str = ""
    name: str = ""
    architecture: int | None = None  # NVML_DEVICE_ARCH_*
    mig: bool = False
    mig_uuids: tuple[str, ...] = ()  # instances that the job named; empty: unknown
    shared: str = ""  # why its power is not the job's alone; empty: it is

    @property
    def device(self) -> str:
        return f"gpu{self.index}"

    def source_id(self, what: str) -> str:
        return f"nvml:{self.label}:{what}"

    @property
    def scope_note(self) -> str:
        """What the readings cover beyond the GPU."""
        return "whole module, CPU included" if "GH200" in self.name else ""

    @property
    def usage_is_average(self) -> bool | None:
        """Does nvmlDeviceGetPowerUsage mean the last second? None: unknown architecture."""
        if self.architecture is None:
            return None
        if self.architecture == AMPERE and _GA100 & set(re.split(r"\W+", self.name)):
            return False
        return self.architecture >= AMPERE


def attempt(call: Callable[[], T]) -> T | Failed:
    """Run one NVML call; whatever goes wrong becomes a :class:`Failed`."""
    try:
        return call()
    except Exception as error:  # NVMLError, OSError, ctypes errors, a stand-in's own
        return failed(error)


def failed(error: Exception) -> Failed:
    """The reason in NVML's words."""
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

    def __init__(self, nvml: ModuleType) -> None:
        self.nvml: Any = nvml
        self._open = True

    @classmethod
    def open(cls) -> Session:
        """Load the library and initialise it, or say in one line why not.

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
                    raise _unavailable(outcome)
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
        found = attempt(self.nvml.nvmlSystemGetDriverVersion)
        return "unknown" if isinstance(found, Failed) else str(found)

    def fetch_handle(self, index: int) -> Any:
        """The handle of a device (nvmlDeviceGetHandleByIndex), or :class:`Failed`."""
        return attempt(lambda: self.nvml.nvmlDeviceGetHandleByIndex(index))

    def identify(self) -> tuple[list[Identity], dict[int, Any], list[Absence]]:
        """All devices of the machine, their handles, and those that do not answer.

        Raises:
            SensorUnavailable: the count fails or is zero.
        """
        count = attempt(self.nvml.nvmlDeviceGetCount)
        if isinstance(count, Failed):
            raise _unavailable(count)
        if not count:
            raise SensorUnavailable("the NVIDIA driver shows no GPU here", None)
        identities: list[Identity] = []
        handles: dict[int, Any] = {}
        absent: list[Absence] = []
        for index in range(count):
            handle = self.fetch_handle(index)
            if isinstance(handle, Failed):
                remedy = "nvidia-smi --gpu-reset (or reboot)" if handle.lost else None
                reason = handle.reason
                absent.append(
                    Absence(sensor="nvml", what=f"GPU {index}", reason=reason, remedy=remedy)
                )
                # It still counts for CUDA's numbering; only it is never read.
                identities.append(Identity(index=index))
                continue
            handles[index] = handle
            identities.append(
                Identity(
                    index=index,
                    uuid=self._text("nvmlDeviceGetUUID", handle),
                    name=self._text("nvmlDeviceGetName", handle),
                    mig_uuids=self._mig_uuids(handle),
                )
            )
        return identities, handles, absent

    def describe(self, identity: Identity, handle: Any, selection: Selection) -> Device:
        """Architecture, MIG and virtualisation of one device; each call is optional."""
        nvml = self.nvml
        architecture = attempt(lambda: nvml.nvmlDeviceGetArchitecture(handle))
        mode = attempt(lambda: nvml.nvmlDeviceGetVirtualizationMode(handle))
        mig = bool(identity.mig_uuids) or self._mig_enabled(handle)
        shared = MIG_NOTE if mig else ""
        if not mig and isinstance(mode, int) and mode in _VGPU_MODES:
            shared = f"power is that of the whole card, shared with others ({_VGPU_MODES[mode]})"
        known = isinstance(architecture, int) and architecture < 0xFFFF
        return Device(
            index=identity.index,
            handle=handle,
            label=identity.uuid or f"index-{identity.index}",
            uuid=identity.uuid,
            name=identity.name,
            architecture=architecture if known and isinstance(architecture, int) else None,
            mig=mig,
            mig_uuids=tuple(u for u in identity.mig_uuids if u in selection.mig_uuids),
            shared=shared,
        )

    def probe_counter(self, device: Device) -> int | Failed:
        """nvmlDeviceGetTotalEnergyConsumption in mJ.

        Probed once for all sensors: its answer decides whether energy or power counts
        into the total, and two different answers would count a joule twice.
        """
        with Session._lock:
            if device.index not in Session._counters:
                Session._counters[device.index] = self._probe_counter(device.handle)
            return Session._counters[device.index]

    def _probe_counter(self, handle: Any) -> int | Failed:
        call = self.nvml.nvmlDeviceGetTotalEnergyConsumption
        value = attempt(lambda: call(handle))
        deadline = time.monotonic() + ZERO_WAIT_S
        while value == 0 and time.monotonic() < deadline:  # fresh driver, or no counter at all
            time.sleep(0.01)
            value = attempt(lambda: call(handle))
        if value == 0:
            power = attempt(lambda: self.nvml.nvmlDeviceGetPowerUsage(handle))
            if isinstance(power, int) and power > 0:
                return Failed("the counter stays at 0 while power is drawn")
        if not isinstance(value, Failed) and not plausible_counter(value):
            return Failed(f"the counter reads {value}")
        return value

    def _text(self, function: str, handle: Any) -> str:
        value = attempt(lambda: getattr(self.nvml, function)(handle))
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        return value if isinstance(value, str) else ""

    def _mig_enabled(self, handle: Any) -> bool:
        mode = attempt(lambda: self.nvml.nvmlDeviceGetMigMode(handle))
        return not isinstance(mode, Failed) and bool(mode[0])

    def _mig_uuids(self, handle: Any) -> tuple[str, ...]:
        if not self._mig_enabled(handle):
            return ()
        limit = attempt(lambda: self.nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
        found: list[str] = []
        for index in range(limit if isinstance(limit, int) else 0):
            mig = self._mig_handle(handle, index)
            if not isinstance(mig, Failed):
                found.append(self._text("nvmlDeviceGetUUID", mig))
        return tuple(uuid for uuid in found if uuid)

    def _mig_handle(self, handle: Any, index: int) -> Any:
        return attempt(lambda: self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))


def plausible_counter(value: object) -> bool:
    """Could this be an energy counter's reading in mJ? Drivers answer all ones for none."""
    return isinstance(value, int) and value >= 0 and value not in _ALL_ONES


def open_devices(
    requests: Sequence[DeviceRequest], absent: list[Absence], warnings: list[str]
) -> tuple[Session, list[Device], str]:
    """A session, the selected devices, and the rule that selected them.

    Raises:
        SensorUnavailable: no NVML, or none of the devices is selected and answers.
    """
    session = Session.open()
    try:
        identities, handles, silent = session.identify()
        selection = select(identities, requests)
        warnings.extend(selection.warnings)
        chosen = [i for i in identities if i.index in selection.indices]
        absent.extend(a for a in silent if any(a.what == f"GPU {i.index}" for i in chosen))
        devices = [
            session.describe(identity, handles[identity.index], selection)
            for identity in chosen
            if identity.index in handles
        ]
        if not devices:
            reason = absent[0].reason if absent else f"no GPU is selected ({selection.rule})"
            raise SensorUnavailable(reason, absent[0].remedy if absent else None)
    except BaseException:
        session.close()
        raise
    return session, devices, selection.rule


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


def _unavailable(outcome: Failed) -> SensorUnavailable:
    if outcome.code in _REMEDIES:
        return SensorUnavailable(*_REMEDIES[outcome.code])
    return SensorUnavailable(f"NVML does not start: {outcome.reason}", None)
