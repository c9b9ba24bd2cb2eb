"""Modelled CPU and RAM power by the CodeCarbon library, where no meter can be read.

CodeCarbon's own power models are used (thermal design power × load, watts per memory
module); its tracker is not: that one would poll NVML a second time, look up its
location on the network and write files. A modelled joule is never added to a measured
one. The CPU model counts the CPU time of the job's own processes; the RAM model is
that of the whole machine, since memory modules cannot be assigned to jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..errors import SensorUnavailable
from ..model import Absence, Kind, Provenance, Reading, Source
from ..units import NS_PER_S
from ._carbon import import_codecarbon, silently
from ._kept_answers import kept_answer
from ._powercap import measured_devices
from ._processes import Tree, outermost
from ._schedule import GRID_NS, on_grid
from .base import SensorContext, read_each

PERIOD_NS = 2 * NS_PER_S
_MOST_WATTS = 10_000  # of a processor


@dataclass(frozen=True, slots=True)
class _Processor:
    """What CodeCarbon calls it, and its thermal design power in W; None: it does not know it."""

    model: str | None
    tdp: float | None


class CodeCarbonSensor:
    """Power in W of the job's CPU time and of the machine's memory, by model."""

    name: ClassVar[str] = "codecarbon"

    def __init__(self, context: SensorContext) -> None:
        self.absent: list[Absence] = []
        self.warnings: list[str] = []
        self._context = context
        self._read: dict[str, Callable[[], float]] = {}
        self._next_ns = context.clock.now_ns()

    def open(self) -> Sequence[Source]:
        """Detect the CPU; the first time, that imports pandas.

        Raises SensorUnavailable if RAPL measures all of it.
        """
        context = self._context
        measured = measured_devices(context.powercap_root, context.proc_root, context.clock)
        for device, what in (("cpu", "CPU power model"), ("ram", "RAM power model")):
            if device in measured:
                reason = "not needed: RAPL measures it"
                self.absent.append(Absence(sensor=self.name, what=what, reason=reason))
        if {"cpu", "ram"} <= measured:
            raise SensorUnavailable("not needed: RAPL measures CPU and RAM")
        sources = []
        try:
            with silently():
                import_codecarbon()
                if "cpu" not in measured:
                    sources.append(self._open_cpu())
                if "ram" not in measured:
                    sources.append(self._open_ram())
        except ModuleNotFoundError as error:
            raise SensorUnavailable(
                f"CodeCarbon cannot be imported: {error}", "pip install codecarbon"
            ) from None
        self._next_ns = context.clock.now_ns() + NS_PER_S // 2
        return sources

    def read(self) -> Iterable[Reading]:
        """Power of the time since the last call. Never raises; a failing model is a Gap."""
        begin = self._context.clock.now_ns()
        readings = read_each(self._read, self._context.clock, self._next_ns)
        self._next_ns = on_grid(begin + PERIOD_NS - GRID_NS // 2)
        return readings

    def next_read_ns(self) -> int:
        """Every two seconds."""
        return self._next_ns

    def close(self) -> None:
        """Nothing is held. Idempotent."""
        self._read = {}

    def _open_cpu(self) -> Source:
        import psutil
        from codecarbon import __version__ as version
        from codecarbon.core.util import count_physical_cpus
        from codecarbon.external.hardware import CPU, MODE_CPU_LOAD

        processor = _processor(self._context.proc_root)
        if processor.tdp:  # of one socket
            tdp = processor.tdp * max(1, count_physical_cpus())
        else:
            tdp = 4 * (psutil.cpu_count() or 1)  # CodeCarbon's own default per thread
        model = processor.model or "unknown CPU"
        cpus = [
            _of_process(CPU, MODE_CPU_LOAD, model, tdp, process)
            for process in outermost(self._context.pids)
        ]
        scope = "the job's CPU time"
        if not cpus:
            scope = "the whole machine"
            cpus = [
                CPU(
                    output_dir="", mode=MODE_CPU_LOAD, model=model, tdp=tdp, tracking_mode="machine"
                )
            ]
        self._read["codecarbon:cpu"] = lambda: sum(_watts(cpu) for cpu in cpus)
        self._read["codecarbon:cpu"]()  # the first call only sets the starting point
        return Source(
            id="codecarbon:cpu",
            device="cpu",
            quantity="power",
            unit="W",
            kind=Kind.GAUGE,
            provenance=Provenance.MODELLED,
            method=f"model: codecarbon {version}, {tdp:g} W × load",
            resolution_s=PERIOD_NS / NS_PER_S,
            note=f"{model}; {scope}",
        )

    def _open_ram(self) -> Source:
        from codecarbon import __version__ as version
        from codecarbon.external.ram import RAM

        ram = RAM(tracking_mode="machine")
        watts = float(ram.total_power().W)  # depends on installed memory only
        self._read["codecarbon:ram"] = lambda: watts
        return Source(
            id="codecarbon:ram",
            device="ram",
            quantity="power",
            unit="W",
            kind=Kind.GAUGE,
            provenance=Provenance.MODELLED,
            method=f"model: codecarbon {version}, W per module",
            resolution_s=PERIOD_NS / NS_PER_S,
            note="the whole machine's memory",
        )


def _processor(proc: Path) -> _Processor:
    from codecarbon.core.util import count_cpus

    name = _processor_name(proc)
    if not name:
        return _ask(name)
    return kept_answer(
        _Processor,
        # Of a processor that it does not know CodeCarbon counts the threads.
        f"processor {name}, {count_cpus()} threads",
        lambda: _ask(name),
        lambda kept: isinstance(kept.model, str) and 0 <= (kept.tdp or 0) < _MOST_WATTS,
    )


def _ask(name: str) -> _Processor:
    from codecarbon.core import cpu as power_models

    if name:  # else py-cpuinfo asks two processes of its own: 0.4 s of CPU
        power_models.detect_cpu_model = lambda: name
    processor = power_models.TDP()
    return _Processor(processor.model, processor.tdp)


def _processor_name(proc: Path) -> str:
    """As the kernel prints it; empty where it prints none (most ARM machines)."""
    try:
        lines = (proc / "cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")


def _of_process(kind: Any, mode: str, model: str, tdp: float, process: Any) -> Any:
    """CodeCarbon's model for the tree of another process than its own."""
    cpu = kind(output_dir="", mode=mode, model=model, tdp=tdp, tracking_mode="process")
    cpu._pid, cpu._process = process.pid, Tree(process)
    return cpu


def _watts(cpu: Any) -> float:
    """Power since the last call; the library's public method averages it away."""
    return float(cpu._get_power_from_cpu_load().W)
