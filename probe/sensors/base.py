"""What a sensor is, and what it may know about the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from ..clock import Clock, MonotonicClock
from ..model import Absence, DeviceRequest, Gap, Reading, Sample, Source


def powercap_root() -> Path:
    """Where the kernel shows RAPL; PROBE_POWERCAP_ROOT where a container mounts it elsewhere."""
    return Path(os.environ.get("PROBE_POWERCAP_ROOT") or "/sys/class/powercap")


def sys_root() -> Path:
    """Where the kernel shows devices; PROBE_SYS_ROOT where a container mounts it elsewhere."""
    return Path(os.environ.get("PROBE_SYS_ROOT") or "/sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorContext:
    """What a sensor may know about the run.

    ``clock`` gives the time and is the only way to wait. The roots are where the kernel shows RAPL,
    processes and devices: a sensor that reads files looks for them there, so that tests and
    containers can put other trees in their place.
    """

    requests: tuple[DeviceRequest, ...] = (DeviceRequest(),)  # one per rank of this node
    pids: tuple[int, ...] = ()  # of the launchers, else of the ranks
    ranks: Mapping[int, int] = field(default_factory=dict)  # rank, or its seat, → process id
    country: str | None = None  # ISO 3166 alpha-3
    clock: Clock = field(default_factory=MonotonicClock)
    powercap_root: Path = field(default_factory=powercap_root)
    proc_root: Path = Path("/proc")
    sys_root: Path = field(default_factory=sys_root)
    dev_root: Path = Path("/dev")


class Sensor(Protocol):
    """What reads one kind of meter, in a thread of the recorder, never in the training process.

    ``Sensor(context)`` keeps the context and does nothing else. :meth:`open` finds the meters,
    :meth:`read` is called at the times that :meth:`next_read_ns` names, :meth:`close` may be called
    twice. Times are nanoseconds of ``context.clock``. ``name`` is unique; ``absent`` is filled by
    :meth:`open` with what is missing and why; ``warnings``, a clear line each, may grow later.
    """

    name: ClassVar[str]
    absent: list[Absence]  # filled by open(): what is missing and why
    warnings: list[str]  # one clear line each; may grow while reading

    def __init__(self, context: SensorContext) -> None: ...

    def open(self) -> Sequence[Source]:
        """Probe the hardware and return the sources that work.

        Raises:
            SensorUnavailable: with the reason and the remedy, when there is none.
        """

    def read(self) -> Iterable[Reading]:
        """Read what is due now. Never raises; a failure is a Gap."""

    def next_read_ns(self) -> int:
        """The monotonic time at which ``read`` wants to be called next."""

    def close(self) -> None:
        """Give everything back. Idempotent, never raises."""


def read_each(
    calls: Mapping[str, Callable[[], float]], clock: Clock, since_ns: int
) -> list[Reading]:
    """A Sample of each source; of one whose call fails, a Gap from ``since_ns`` with the reason.

    Args:
        calls: by source id; each returns a raw value.
    """
    readings: list[Reading] = []
    for source, call in calls.items():
        try:
            value = float(call())
        except Exception as error:  # a library's own, of any type
            reason = f"{type(error).__name__}: {error}"
            readings.append(Gap(source, since_ns, clock.now_ns(), reason))
        else:
            readings.append(Sample(source, clock.now_ns(), value))
    return readings
