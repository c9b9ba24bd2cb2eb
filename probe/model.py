"""The nouns of phasewatt. Standard library only, immutable, units in the names.

A training loop, with the phase that each line is recorded as::

    with probe.watch(model, optimizer) as run:  # startup        until the loop below begins
        loader = DataLoader(Corpus())           # startup        startup/compile: torch.compile
        for x, y in loader:                     # data           the loader's __next__
            x = x.to(device)                    # other          in the loop, no named phase
            with torch.no_grad():
                target = teacher(x)             # inference      a forward without gradients
            y_hat = model(x)                    # forward
            loss = loss_fn(y_hat, target)       # forward        the tail, if a backward follows
            loss.backward()                     # backward       recompute: replay inside it
            dist.all_reduce(metric)             # communication  a blocking collective
            optimizer.step()                    # optimizer
            optimizer.zero_grad()               # other
            run.log(loss=loss)                  # other
        model.eval()
        with torch.no_grad():
            for x, y in test_loader:            # eval           with its loading
                model(x)                        # eval
        torch.save(model.state_dict(), path)    # checkpoint     saving
        with run.phase("sampling"):             # sampling       your own name, your own phase
            sample(model)
                                                # unattributed: the end, until it is sealed

Three phases close the account: ``other`` (inside the watched loop, no named phase),
``unattributed`` (no span: start, end, gaps, dropped edges) and ``unresolved`` (joint
energy of phases whose own energy is refused).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

SCHEMA_VERSION = 1
"""Version of run.json, of the store's files and of the JSON report."""


class Phase(StrEnum):
    """The built-in phases; a user's own name is any other string."""

    DATA = "data"
    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTE = "recompute"
    COMMUNICATION = "communication"
    OPTIMIZER = "optimizer"
    EVAL = "eval"
    CHECKPOINT = "checkpoint"
    INFERENCE = "inference"
    STARTUP = "startup"
    COMPILE = "startup/compile"
    RESTART = "restart"
    OTHER = "other"
    UNATTRIBUTED = "unattributed"
    UNRESOLVED = "unresolved"


class Provenance(StrEnum):
    """Where a number comes from.

    ``measured``: a meter read it. ``modelled``: a model of the hardware computed it; it is never
    added to measured numbers. ``estimated``: it is inferred from measured numbers.
    """

    MEASURED = "measured"
    MODELLED = "modelled"
    ESTIMATED = "estimated"


class Status(StrEnum):
    """How far a phase's own energy can be known.

    ``resolved``: it is stated, with a narrow interval. ``weak``: it is stated, with a wide or no
    interval, or although a check of the estimate is in doubt. ``not_identifiable``: it is refused,
    since what was recorded does not determine it.
    """

    RESOLVED = "resolved"
    WEAK = "weak"
    NOT_IDENTIFIABLE = "not_identifiable"


class RunStatus(StrEnum):
    """How a run stands or ended."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"  # an exception or a non-zero exit code left the watched block
    KILLED = "killed"  # the process died without leaving the watched block
    LOST = "lost"  # the machine or the container went away


class Kind(StrEnum):
    """How a source's values are read."""

    COUNTER = "counter"  # grows; differences carry the meaning
    GAUGE = "gauge"  # a level at an instant or over a window


class DeviceKind(StrEnum):
    """What a device is, independent of its vendor."""

    ACCELERATOR = "accelerator"  # computes beside the CPU: gpu0, npu0
    CPU = "cpu"  # a package, or a die of it: cpu0, cpu0-die1
    DRAM = "dram"  # memory modules: dram0, or ram (modelled)
    PLATFORM = "platform"  # the whole machine at its power supply: psys
    HOST = "host"  # the machine as its operating system sees it
    PROCESS = "process"  # the processes of the job
    RANK = "rank"  # the process of one rank
    OTHER = "other"  # core0, uncore0: a part of another device


_KIND_OF_WORD = {kind.value: kind for kind in DeviceKind} | {
    "gpu": DeviceKind.ACCELERATOR,
    "ram": DeviceKind.DRAM,
    "psys": DeviceKind.PLATFORM,
}


def device_kind(name: str, stored: str = "") -> DeviceKind:
    """A device's kind as it was stored. Without one, what the name says (``node/gpu0``: a GPU)."""
    if stored:
        return DeviceKind(stored)
    return _KIND_OF_WORD.get(_word_and_number(name)[0], DeviceKind.OTHER)


def _word_and_number(name: str) -> tuple[str, str]:
    """Of a device's name: ``node/gpu0`` → (``gpu``, ``0``)."""
    match = re.match(r"(?:.*/)?([a-z]*)(\d*)", name)
    return (match[1], match[2]) if match else ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One value that a meter gives: what it measures, of which device, and how well.

    ``quantity`` (energy, power, temperature, …) of ``device`` (gpu0, cpu0, psys, …), as a counter
    or a gauge (``kind``), measured or modelled (``provenance``). ``in_total`` counts its joules
    into the run's; ``attributable`` False means that no number of a phase is derived from it.
    ``id`` is unique in a run and stable over runs on the same machine, for example
    ``nvml:GPU-1b2c…:energy`` or ``rapl:intel-rapl:0:energy``. A stored raw value times ``scale`` is
    in ``unit`` (base units: J, W, B, Hz, s, Cel, ratio 0–1, or ``bitmask``).

    A device whose name does not say its kind (``npu0``) needs ``device_kind``. The name decides
    where ``device_kind`` or ``index`` are left out, as in runs that were recorded without them.
    """

    id: str
    device: str  # gpu0, cpu0, dram0, psys, host, process
    device_kind: DeviceKind = DeviceKind.OTHER
    vendor: str = ""  # nvidia, intel, …; empty: unknown
    index: int | None = None  # of an accelerator: its number among its vendor's devices
    quantity: str  # energy, power, utilization, memory_used, sm_clock, temperature, …
    unit: str
    kind: Kind
    provenance: Provenance
    scale: float = 1.0
    uuid: str = ""
    method: str = ""  # counter, field 186, field 185, usage, samples, gpm, rapl, model:…
    resolution_s: float | None = None  # update period or averaging window, where known
    lag_s: float | None = None  # calibrated time constant between power and meter
    delay_s: float | None = None  # how late it is besides; without a lag: published, not calibrated
    average_s: float | None = None  # calibrated window of a moving average, in the lag's place
    part_s: float | None = None  # what it integrates of each period, calibrated or published
    limit: float | None = None  # the most that the device has of it (memory), in the unit
    wrap_raw: float | None = None  # raw value at which a counter starts again from 0
    attributable: bool = True  # False: shared or partitioned device; no number is derived
    in_total: bool = False  # counts into the run's measured energy
    note: str = ""  # what a reader must know: "1 s average", "whole module", …
    model: str = ""  # of the device, as its maker calls it
    tracked: bool = False  # a power reading that is read closely around its refreshes if it counts
    dated: bool = True  # False: read too rarely to say when it moved; its joules have no phases
    simulated: bool = False  # the device does not exist (`probe demo`): no sum counts its joules

    def __post_init__(self) -> None:
        if self.device_kind is DeviceKind.OTHER:
            object.__setattr__(self, "device_kind", device_kind(self.device))
        number = _word_and_number(self.device)[1]
        if self.is_accelerator and self.index is None and number:
            object.__setattr__(self, "index", int(number))

    @property
    def is_accelerator(self) -> bool:
        """True for GPUs and their like, of any vendor."""
        return self.device_kind is DeviceKind.ACCELERATOR

    @property
    def is_energy_counter(self) -> bool:
        """True for a counter of joules."""
        return self.quantity == "energy" and self.kind is Kind.COUNTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A meter that is not there, and why."""

    sensor: str  # nvml, rapl, …
    what: str  # "GPU 0 energy counter"
    reason: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: raw ``value`` of ``source`` at ``time_ns``.

    ``time_ns`` is monotonic and taken right after the call returned; ``span_ns``
    is how long the call took, so the value was true somewhere in
    [time_ns − span_ns, time_ns]. A sensor's own timestamp, where it has one that
    can be anchored, replaces both (``span_ns`` = 0).
    """

    source: str
    time_ns: int
    value: float
    span_ns: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that should have been recorded and was not. Never a zero.

    ``what`` is a source id, a ring's name, or ``recorder``.
    """

    what: str
    begin_ns: int
    end_ns: int
    reason: str
    count: int = 1


DISTRUSTED = "the counter disagrees with sampled power"
"""Beginning of the reason of a Gap that says: this counter's joules are not to be used."""

TRUSTED_AGAIN = "the counter agrees with sampled power again"
"""Beginning of the reason of a Gap that takes the last such word back."""

RESTARTED = "the counter started anew"
"""Reason of a Gap across which a counter's values must not be subtracted."""

Reading = Sample | Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """Which accelerators a rank uses, as it reported to the recorder.

    The rule: the user's ``devices``, else the CUDA devices that the rank
    initialised, else the LOCAL_RANK-th of the visible ones, else all visible.
    """

    devices: str | None = None  # watch(devices=…) / PROBE_DEVICES, comma separated
    visible: str | None = None  # CUDA_VISIBLE_DEVICES; None = unset, "" = none visible
    order: str | None = None  # CUDA_DEVICE_ORDER
    local_rank: int | None = None
    uuids: tuple[str, ...] = field(default_factory=tuple)  # initialised by the rank
