"""The machine in words, for run.json: what a reader of the report must know of it."""

from __future__ import annotations

import contextlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report.model import JsonValue

_PACKAGES = ("phasewatt", "codecarbon", "nvidia-ml-py", "numpy")


def machine() -> dict[str, JsonValue]:
    """Operating system, processor, memory, and the versions of what measures."""
    import psutil

    return {
        "os": platform.platform(),
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count() or 0,
        "memory_bytes": int(psutil.virtual_memory().total),
        "driver": _driver(),
        "versions": {name: _version(name) for name in _PACKAGES},
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine() or "unknown"


def _driver() -> str:
    """Of NVIDIA's kernel module; that of the library stands with the sensors."""
    with contextlib.suppress(OSError):
        return Path("/sys/module/nvidia/version").read_text(encoding="utf-8").strip()
    return "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
