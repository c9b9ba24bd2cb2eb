"""The meters of a run: what each counted, how well it is understood, and which are absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...model import Provenance
from .values import KEYWORD_KEYS, PydanticConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorResponse:
    """How what a meter shows follows the power that the device draws."""

    kind: str
    """What is particular to the meter: ``part-time``, ``averaging``, ``late``, ``slow``,
    ``wandering``, joined by commas; ``in time`` if nothing is."""
    delay_s: float
    """How late the meter shows power, before its lag or window."""
    tau_s: float
    """Time constant of its first-order lag; 0 for a moving average."""
    window_s: float
    """Window of its moving average, or the part of each period that it integrates; else 0."""
    period_s: float
    """Time between its updates."""
    wander_s: float
    """How far its updates come early or late: the standard deviation."""
    from_: str
    """Where this comes from: ``run`` (this run's data), ``calibration``, or ``older recording``
    (whose data lack the response's error)."""

    __pydantic_config__: ClassVar[PydanticConfig] = KEYWORD_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorFit:
    """Whether a meter's readings are those of a sensor with its response."""

    ok: bool
    """Whether the readings fit."""
    p: float
    """Probability of a misfit as large as this if the readings are those of such a sensor."""
    failed: str | None = None
    """Assumption that failed: ``response``; null if ``ok``."""
    remedy: str | None = None
    """What the report did about it, and what the user can do; null if ``ok``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystematicError:
    """How far all that a meter shows is off, beside the intervals."""

    gain: float
    """Relative error of the power that it shows; with a sign for ``database``, to either side for
    ``vendor``."""
    offset_w: float
    """Error in watts that is the same at all powers."""
    from_: str
    """Where this comes from: ``database`` (published for this card), ``vendor`` (a general
    tolerance) or ``simulation``."""

    __pydantic_config__: ClassVar[PydanticConfig] = KEYWORD_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One meter, or one model in its place: what it counted, and how well it is understood."""

    source: str
    """Id of the source, unique in the run."""
    device: str
    """Device whose energy it is, such as ``gpu0``; on several hosts after the host's name."""
    uuid: str
    """UUID of the device; empty if it has none."""
    method: str
    """How it is read, such as ``counter`` or ``rapl``, or the model; empty while the run goes
    on."""
    provenance: Provenance
    """Whether a meter read it or a model computed it."""
    in_total: bool
    """Whether it counts into the run's measured energy."""
    energy_j: float | None
    """Energy over the run; null if the meter hardly moved, or its device is shared or
    partitioned."""
    gaps: int
    """Missed reads, and other gaps in its readings such as a restart of its counter."""
    period_s: float | None
    """Median time between its updates; without readings the published one; null if unknown."""
    note: str = ""
    """What a reader must know of it, in words."""
    model: str = ""
    """Product name of the device; empty if unknown."""
    systematic: SystematicError | None = None
    """How far all that it shows is off; null for a model, or while the run goes on."""
    response: SensorResponse | None = None
    """How it follows power; null if its energy was not estimated by phase from its updates."""
    fit: SensorFit | None = None
    """Whether its readings fit ``response``; null without one."""
    shared: bool = False
    """Whether other trainings used the device at the same time, so that its energy is the
    group's."""
    device_kind: str = ""
    """Kind of the device where its name does not say it, such as ``accelerator`` for ``npu0``; else
    empty."""
    simulated: bool = False
    """Whether the device does not exist (``probe demo``)."""

    @property
    def is_modelled(self) -> bool:
        """True if a model says its power, no meter."""
        return self.provenance is Provenance.MODELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentMeter:
    """A meter that could not be read."""

    sensor: str
    """Name of the sensor plug-in, such as ``nvml`` or ``rapl``."""
    what: str
    """What could not be read."""
    reason: str
    """Why it could not be read."""
    remedy: str | None = None
    """What the user can do about it; null if nothing."""
