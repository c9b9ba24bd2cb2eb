"""The simulated NVML library: ctypes callbacks that stand where pynvml keeps its ``CDLL``.

pynvml calls them as it calls C: by pointers to structs and integers, with return codes. It has one
card, whose true power is a tape. Its energy counter moves every 100 ms, as those of an A100 or H100
do, and its power is the mean of the last second. A function that is not here is missing as it is in
an old driver's library: pynvml raises NVML_ERROR_FUNCTION_NOT_FOUND.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import c_int, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any

from ..units import NS_PER_MS, NS_PER_S
from . import NAME, UUID_PREFIX
from .tape import TapeReader

PERIOD_NS = 100 * NS_PER_MS
UUID = f"{UUID_PREFIX}00000000-0000-0000-0000-000000000001"
DRIVER = "simulated"
_BEGIN_MJ = 1_000_000  # a card's counter began before the run
_HOPPER = 9  # NVML_DEVICE_ARCH_HOPPER: power usage is the mean of a second
_HANDLE = 0x51  # no address: nothing looks behind it
_OK, _INVALID_ARGUMENT, _INSUFFICIENT_SIZE, _UNKNOWN = 0, 2, 7, 999


class SimulatedLibrary:
    """One card under pynvml, in the place of ``pynvml.nvmlLib``."""

    def __init__(self, tape: TapeReader, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Make the callbacks, which live as long as this object.

        Args:
            tape: the card's true power.
            now_ns: the time on the tape's clock.
        """
        self._tape, self._now_ns = tape, now_ns
        pointer = c_void_p  # pynvml passes pointers of several types
        self._functions = {
            "nvmlInitWithFlags": _callback(lambda _flags: _OK, c_uint),
            "nvmlShutdown": _callback(lambda: _OK),
            "nvmlSystemGetDriverVersion": _callback(_text_of(DRIVER), pointer, c_uint),
            "nvmlDeviceGetCount_v2": _callback(_count, pointer),
            "nvmlDeviceGetHandleByIndex_v2": _callback(_handle, c_uint, pointer),
            "nvmlDeviceGetUUID": _callback(_of_card(_text_of(UUID)), pointer, pointer, c_uint),
            "nvmlDeviceGetName": _callback(_of_card(_text_of(NAME)), pointer, pointer, c_uint),
            "nvmlDeviceGetArchitecture": _callback(_of_card(_architecture), pointer, pointer),
            "nvmlDeviceGetTotalEnergyConsumption": _callback(
                _of_card(self._energy), pointer, pointer
            ),
            "nvmlDeviceGetPowerUsage": _callback(_of_card(self._power), pointer, pointer),
        }

    def __getattr__(self, name: str) -> Any:
        """A function by name. Raises AttributeError, as a CDLL does."""
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(f"the simulated library has no function {name}") from None

    def __getitem__(self, name: str) -> Any:
        """The same, by ``[]``."""
        return getattr(self, name)

    def _energy(self, millijoules: int) -> int:
        now_ns = self._now_ns()
        update_ns = now_ns - (now_ns - self._tape.begin_ns) % PERIOD_NS
        shown_mj = _BEGIN_MJ + int(1e3 * self._tape.joules(update_ns))
        c_ulonglong.from_address(millijoules).value = shown_mj
        return _OK

    def _power(self, milliwatts: int) -> int:
        now_ns = self._now_ns()
        watts = self._tape.mean_watts(now_ns - NS_PER_S, now_ns)
        c_uint.from_address(milliwatts).value = round(1e3 * watts)
        return _OK


def install(tape: Path) -> None:
    """Put the card under this process's pynvml, for good.

    Raises:
        OSError, ValueError: there is no such tape.
        RuntimeError: pynvml has loaded a library already.
        ImportError: there is no pynvml.
    """
    import pynvml

    if pynvml.nvmlLib is not None:
        raise RuntimeError("pynvml has loaded NVIDIA's library already")
    pynvml.nvmlLib = SimulatedLibrary(TapeReader(tape))


def _callback(function: Callable[..., int], *arguments: Any) -> Any:
    def guarded(*values: Any) -> int:
        try:
            return function(*values)
        except Exception:  # ctypes would print it and return what happens to lie there
            return _UNKNOWN

    return ctypes.CFUNCTYPE(c_int, *arguments)(guarded)


def _of_card(function: Callable[..., int]) -> Callable[..., int]:
    """The function without its first argument, which must be the card's handle."""

    def checked(handle: int | None, *values: Any) -> int:
        return function(*values) if handle == _HANDLE else _INVALID_ARGUMENT

    return checked


def _text_of(text: str) -> Callable[[int, int], int]:
    content = text.encode() + b"\0"

    def copy(address: int, length: int) -> int:
        if len(content) > length:
            return _INSUFFICIENT_SIZE
        ctypes.memmove(address, content, len(content))
        return _OK

    return copy


def _count(count: int) -> int:
    c_uint.from_address(count).value = 1
    return _OK


def _handle(index: int, handle: int) -> int:
    if index:
        return _INVALID_ARGUMENT
    c_void_p.from_address(handle).value = _HANDLE
    return _OK


def _architecture(architecture: int) -> int:
    c_uint.from_address(architecture).value = _HOPPER
    return _OK
