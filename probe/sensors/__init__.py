"""Sensors read meters. One file each, found by walking this package.

A sensor module has one class with ``name`` and the three verbs of
:class:`Sensor`; a third party registers the same under the entry point
``probe.sensors``. Sensors run in the recorder process, each on a thread of its
own, and never meet the training process. They must not import torch.

The life of a sensor: ``Sensor(context)`` does nothing but keep the context;
``open()`` imports the vendor library, probes every call once, and returns the
sources that work (raises :class:`SensorUnavailable` when there are none);
``read()`` is called again and again at the times that ``next_read_ns`` names;
``close()`` may be called twice.

A reading that fails is a :class:`Gap`, never a zero and never an exception. What
is unsupported is listed in ``absent`` with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from ..clock import Clock, MonotonicClock
from ..model import Absence, DeviceRequest, Reading, Source


def powercap_root() -> Path:
    """Where the kernel shows RAPL; PROBE_POWERCAP_ROOT where a container mounts it elsewhere."""
    return Path(os.environ.get("PROBE_POWERCAP_ROOT") or "/sys/class/powercap")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorContext:
    """What a sensor may know about the run; roots of system trees are injected here."""

    requests: tuple[DeviceRequest, ...] = (DeviceRequest(),)  # one per rank of this node
    pids: tuple[int, ...] = ()  # the ranks' process ids
    country: str | None = None  # ISO 3166 alpha-3
    clock: Clock = field(default_factory=MonotonicClock)
    powercap_root: Path = field(default_factory=powercap_root)
    proc_root: Path = Path("/proc")


class Sensor(Protocol):
    """The only noun with behaviour."""

    name: ClassVar[str]
    absent: list[Absence]  # filled by open(): what is missing and why
    warnings: list[str]  # one clear line each; may grow while reading

    def __init__(self, context: SensorContext) -> None: ...

    def open(self) -> Sequence[Source]:
        """Probe the hardware and return the sources that work.

        Raises:
            SensorUnavailable: with the reason and the remedy, when there is none.
        """
        ...

    def read(self) -> Iterable[Reading]:
        """Read what is due now. Never raises; a failure is a Gap."""
        ...

    def next_read_ns(self) -> int:
        """The monotonic time at which ``read`` wants to be called next."""
        ...

    def close(self) -> None:
        """Give everything back. Idempotent, never raises."""
        ...
