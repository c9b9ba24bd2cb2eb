"""Energy and power of AMD GPUs by AMD's own Python package ``amdsmi``.

The energy counter of the firmware is multiplied by the resolution that the library states (some
15.3 µJ). It has been seen to stand still (MI100), to be off by 10⁶ (an older library's unit), to
read 0 on the second die of a package (MI250: the first die's counts both), to wrap at 32 bits, and
to be missing from the library. Each of these is a reason in ``absent`` or a gap; power stands in
where it can be read.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...clock import Clock
from ...errors import SensorUnavailable
from ...model import DISTRUSTED, DeviceKind, Gap, Kind, Provenance, Reading, Sample, Source
from ...units import J_PER_MJ, J_PER_UJ, NS_PER_MS, NS_PER_S, W_PER_MW
from .._carbon import silently
from .._polled import CounterAnew, PolledMeter, PolledSensor
from ..base import SensorContext
from ..device_selection import Identity, select
from ..nvml.counter_check import CounterHealth

VENDOR = "amd"
COUNTER_NS = 20 * NS_PER_MS
POWER_NS = 100 * NS_PER_MS  # where it stands in for the counter
BESIDE_NS = NS_PER_S
MOST_W = 5_000.0  # no package draws more
_PROBE_S = 0.25
_BUSY_W = 5.0  # below that a counter may stand
_WRONG = 10.0  # times; a counter this far from power is in another unit
_WRAP = 2**32
_NONE = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})  # firmware's "not there"
_ACCUMULATOR = ("energy_accumulator", "power")  # its name before and after ROCm 6
_POWERS = ("current_socket_power", "socket_power", "average_socket_power")


class AmdSmiSensor(PolledSensor):
    """Energy counters and power of the selected AMD GPUs."""

    name: ClassVar[str] = "amdsmi"

    def __init__(self, context: SensorContext) -> None:
        super().__init__(context)
        self._smi: Any = None

    def find(self) -> list[PolledMeter]:
        """The counter of each selected GPU, and its power."""
        if not (self.context.sys_root / "module" / "amdgpu").exists():
            raise SensorUnavailable("no AMD GPU here: the amdgpu driver is not loaded")
        if importlib.util.find_spec("amdsmi") is None:
            raise SensorUnavailable(
                "the Python package amdsmi cannot be imported",
                "pip install /opt/rocm/share/amd_smi  # or pip install amdsmi, of ROCm's version",
            )
        try:
            with silently():  # it prints where its library is missing
                amdsmi: Any = importlib.import_module("amdsmi")
                amdsmi.amdsmi_init()
            self._smi = amdsmi
            handles = list(amdsmi.amdsmi_get_processor_handles())
        except Exception as error:  # the library's own, of any type
            raise SensorUnavailable(f"amdsmi does not start: {_text(error)}") from None
        identities = [
            Identity(index=index, uuid=self._uuid(handle)) for index, handle in enumerate(handles)
        ]
        selection = select(identities, self.context.requests, VENDOR)
        self.warnings += selection.warnings
        meters = [
            meter
            for index in selection.indices
            for meter in self._meters_of(identities[index], _Gpu(amdsmi, handles[index]))
        ]
        if not meters and not self.absent:
            raise SensorUnavailable(f"no AMD GPU is selected ({selection.rule})")
        return meters

    def close(self) -> None:
        """Shut the library down. Idempotent, never raises."""
        super().close()
        smi, self._smi = self._smi, None
        if smi is not None:
            try:
                smi.amdsmi_shut_down()
            except Exception:  # it is gone anyway
                return

    def _meters_of(self, identity: Identity, gpu: _Gpu) -> list[PolledMeter]:
        index = identity.index
        watts, no_power = gpu.attempt(gpu.watts)
        why = self._counter_fault(gpu, watts)
        model = gpu.model()
        meters: list[PolledMeter] = []
        if not why:
            energy = _source(identity, "energy", model)
            call = _Unwrapped(gpu, self.context.clock)
            meters.append(
                _CheckedCounter(energy, call, COUNTER_NS, MOST_W, gpu=gpu, warnings=self.warnings)
            )
        else:
            self.absence(f"AMD GPU {index} energy counter", why)
        if watts is None:
            self.absence(f"AMD GPU {index} power", no_power)
        elif watts or not why:
            alone = bool(why)
            source = _source(identity, "power", model, alone=alone)
            meters.append(PolledMeter(source, gpu.watts, POWER_NS if alone else BESIDE_NS))
        else:
            self.absence(
                f"AMD GPU {index} power", "it reads 0 W, as the second die of a package does"
            )
        return meters

    def _counter_fault(self, gpu: _Gpu, watts: float | None) -> str:
        """Why the counter cannot be used, by two reads a quarter of a second apart; else empty."""
        first, reason = gpu.attempt(gpu.joules)
        if first is None:
            return reason
        if first == 0 and not watts:
            return (
                "counter and power read 0, as on the second die of a package: "
                "the first die's counter holds the energy of both"
            )
        begin_ns = self.context.clock.now_ns()
        self.context.clock.sleep(_PROBE_S)
        last, reason = gpu.attempt(gpu.joules)
        if last is None:
            return reason
        seconds = (self.context.clock.now_ns() - begin_ns) / NS_PER_S
        slope_w = (last - first) / seconds
        if watts is None or watts < _BUSY_W or slope_w < 0:
            return ""
        if slope_w == 0:
            return f"the counter stands still while {watts:.0f} W are drawn"
        if not 1 / _WRONG < slope_w / watts < _WRONG:
            return f"the counter shows {slope_w:.3g} W while {watts:.0f} W are drawn: a wrong unit"
        return ""

    def _uuid(self, handle: Any) -> str:
        try:
            return str(self._smi.amdsmi_get_gpu_device_uuid(handle))
        except Exception:
            return ""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU, asked by the library; each call may raise anything."""

    smi: Any
    handle: Any

    def counter(self) -> tuple[int, float]:
        """(raw counter, joules per unit of it)."""
        answer: Mapping[str, Any] = self.smi.amdsmi_get_energy_count(self.handle)
        raw = next(answer[name] for name in _ACCUMULATOR if name in answer)
        resolution_uj = float(answer["counter_resolution"])
        if not isinstance(raw, int) or raw < 0 or raw == 2**64 - 1 or not resolution_uj > 0:
            raise ValueError(f"the counter reads {raw!r} × {resolution_uj} µJ")
        return raw, resolution_uj * J_PER_UJ

    def joules(self) -> float:
        raw, unit_j = self.counter()
        return raw * unit_j

    def watts(self) -> float:
        """Power of the package in W; 0 where the firmware says so."""
        answer: Mapping[str, Any] = self.smi.amdsmi_get_power_info(self.handle)
        for name in _POWERS:
            value: Any = answer.get(name)
            numeric = isinstance(value, int | float) and not isinstance(value, bool)
            if numeric and value not in _NONE and 0 <= value <= MOST_W:
                return float(value)
        raise ValueError("no socket power in what the library answers")

    def model(self) -> str:
        try:
            return str(self.smi.amdsmi_get_gpu_asic_info(self.handle).get("market_name", ""))
        except Exception:
            return ""

    def attempt(self, call: Any) -> tuple[float | None, str]:
        """(value, empty) or (None, why there is none)."""
        try:
            return call(), ""
        except AttributeError:
            return None, "the library has no such function: it is older than this driver"
        except Exception as error:
            return None, _text(error)


class _Unwrapped:
    """Joules of a counter since it was opened, across wraps at 32 bits."""

    def __init__(self, gpu: _Gpu, clock: Clock) -> None:
        self._gpu, self._clock = gpu, clock
        self._last: tuple[int, int] | None = None  # time, raw
        self._wrapped = 0

    def __call__(self) -> float:
        raw, unit_j = self._gpu.counter()
        now_ns = self._clock.now_ns()
        before, self._last = self._last, (now_ns, raw)
        if before is not None and raw < before[1]:
            most_j = MOST_W * ((now_ns - before[0]) / NS_PER_S + 1.0)
            if before[1] >= _WRAP or (raw + _WRAP - before[1]) * unit_j > most_j:
                raise CounterAnew
            self._wrapped += _WRAP
        return (raw + self._wrapped) * unit_j


@dataclass
class _CheckedCounter(PolledMeter):
    """A counter that is held against sampled power once a second."""

    gpu: _Gpu | None = None
    warnings: list[str] | None = None
    _check_ns: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._health = CounterHealth()
        self._seen: float | None = None
        self._warned = False

    def read(self, clock: Clock, period_share: float = 1.0) -> list[Reading]:
        out = super().read(clock, period_share)
        for reading in out:
            if isinstance(reading, Gap):
                self._health.restart()
                self._seen = None
            elif isinstance(reading, Sample):
                if reading.value != self._seen:  # the first one, too: one that stands has slope 0
                    self._health.counter(reading.time_ns, reading.value / J_PER_MJ)
                self._seen = reading.value
        if clock.now_ns() >= self._check_ns and self.gpu is not None:
            self._check_ns = clock.now_ns() + NS_PER_S
            out += self._compare(clock, self.gpu)
        return out

    def _compare(self, clock: Clock, gpu: _Gpu) -> list[Reading]:
        watts, _ = gpu.attempt(gpu.watts)
        if not watts:
            return []
        verdict = self._health.power(clock.now_ns(), watts / W_PER_MW)
        if verdict is None or not verdict.disagrees:
            return []
        finding = (
            f"the counter's slope ({verdict.counter_w:.1f} W) differs from sampled power "
            f"({verdict.sampled_w:.1f} W)"
        )
        if self.warnings is not None and not self._warned:
            self._warned = True
            self.warnings.append(f"{self.source.id}: {finding}: its joules are not used")
        reason = f"{DISTRUSTED}: {finding}"
        return [Gap(self.source.id, verdict.begin_ns, clock.now_ns(), reason)]


def _source(identity: Identity, quantity: str, model: str, *, alone: bool = False) -> Source:
    counter = quantity == "energy"
    name = identity.uuid or f"index-{identity.index}"
    return Source(
        id=f"amdsmi:{name}:{quantity}",
        device=f"gpu{identity.index}",
        device_kind=DeviceKind.ACCELERATOR,
        vendor=VENDOR,
        index=identity.index,
        uuid=identity.uuid,
        quantity=quantity,
        unit="J" if counter else "W",
        kind=Kind.COUNTER if counter else Kind.GAUGE,
        provenance=Provenance.MEASURED,
        method="counter" if counter else "power-integral" if alone else "socket power",
        in_total=counter or alone,
        note="amdsmi" if counter or not alone else "amdsmi, integrated: no energy counter",
        model=model,
    )


def _text(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
