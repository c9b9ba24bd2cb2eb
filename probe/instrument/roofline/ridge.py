"""How much a device computes and moves per second: the fastest of some products and some copies.

Measured once per machine, device, precision and number of threads, in about 0.3 s, and kept in
``$PROBE_CALIBRATION``, else ``$XDG_CACHE_HOME/phasewatt/ridge``, else ``~/.cache/phasewatt/ridge``:
runs that are compared are divided by the same rates. Nothing random is drawn.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ...cache_folder import cache_folder, keep

VERSION = 1
_SIDES, _TRIES, _BUDGET_S = (128, 256, 512, 1024), 5, 0.25
_CPU_BYTES, _GPU_BYTES = 32 << 20, 128 << 20  # of a copy: a GPU's cache holds 32 MiB
_SPARE_BYTES = 16 << 20  # for the products
_WAIT_S = 1.0  # for another rank that measures the same device


@dataclass(frozen=True, slots=True)
class Ridge:
    """Peak rates of a device: floating-point operations and bytes per second."""

    flops_per_s: float
    bytes_per_s: float


def kept_ridge(device: torch.device, dtype: torch.dtype) -> Ridge:
    """The rates of this device, measured now if this machine has not kept them.

    Where nothing can be kept they are measured every time. Of several ranks one measures.
    """
    path = _path(device, dtype)
    stored = _load(path)
    if stored is not None:
        return stored
    with _alone(path):
        stored = _load(path) or ridge(device.type, dtype)
        with contextlib.suppress(OSError):
            _save(path, stored)
    return stored


def ridge(device: str, dtype: torch.dtype) -> Ridge:
    """Measure the rates of a device ("cpu", "cuda") now."""
    size = _GPU_BYTES if device == "cuda" else _CPU_BYTES
    source = torch.ones(size, dtype=torch.uint8, device=device)
    sink = torch.empty_like(source)
    copied_s = min(seconds_of(lambda: sink.copy_(source), device) for _ in range(_TRIES))
    return Ridge(matmul_rate(device, dtype), 2 * size / copied_s)


def has_room(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether asking for the rates leaves the peak of the GPU's allocator as it is."""
    if device.type != "cuda" or _load(_path(device, dtype)) is not None:
        return True
    if torch.cuda.is_current_stream_capturing():
        return False
    room = torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)
    return room >= 2 * _GPU_BYTES + _SPARE_BYTES


def matmul_rate(device: str, dtype: torch.dtype) -> float:
    """Operations per second of the fastest matrix product, measured in about 0.1 s.

    A CPU that has no instructions for a half precision takes seconds for a product that takes it
    milliseconds in fp32: a larger one is tried only if it should fit into what is left of 0.25 s.
    """
    _product(_SIDES[0], device, dtype)  # a library that is loaded by its first call
    rate, deadline = 0.0, time.perf_counter() + _BUDGET_S
    for side in _SIDES:
        operations = 2 * side**3
        if rate and time.perf_counter() + operations / rate > deadline:
            break
        for _ in range(_TRIES):
            rate = max(rate, operations / _product(side, device, dtype))
            if time.perf_counter() > deadline:
                break
    return rate


def _product(side: int, device: str, dtype: torch.dtype) -> float:
    a = torch.ones(side, side, dtype=dtype, device=device)
    return seconds_of(lambda: torch.mm(a, a), device)


def seconds_of(act: Callable[[], Any], device: str) -> float:
    """How long ``act`` takes, once."""
    begin = time.perf_counter()
    act()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def _path(device: torch.device, dtype: torch.dtype) -> Path:
    is_gpu = device.type == "cuda"
    model = torch.cuda.get_device_name(device) if is_gpu else f"{_cpu()} {torch.get_num_threads()}"
    precision = "tf32" if is_gpu and torch.backends.cuda.matmul.allow_tf32 else ""
    words = f"{device.type} {model} {str(dtype).removeprefix('torch.')} {precision}".strip()
    return cache_folder("ridge") / f"{re.sub(r'[^A-Za-z0-9]+', '-', words).lower()}.json"


def _cpu() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return os.uname().machine


def _load(path: Path) -> Ridge | None:
    """What is kept; None without it, or if it cannot be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("version") != VERSION or stored.pop("torch") != str(torch.__version__):
            return None
        rates = Ridge(**stored)
        return rates if rates.flops_per_s > 0 and rates.bytes_per_s > 0 else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _save(path: Path, rates: Ridge) -> None:
    keep(path, {"version": VERSION, "torch": str(torch.__version__)} | asdict(rates))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of the folder, or go on without it after a second."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.parent / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.02)
        yield
    finally:
        os.close(lock)
