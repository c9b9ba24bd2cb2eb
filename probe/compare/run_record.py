"""What a comparison knows of a run: how far it came, and what each phase used on the way.

Data only. :mod:`read_run` makes them from the store; tests and benchmarks simulate them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..model import Phase, Provenance, Status
from ..sensors.cards import VENDOR_GAIN

EARLY, LATE = "early", "late"
STAGES = (EARLY, LATE)

Setting = str | float  # what a run was trained with, as its config has it

NO_MFU = "MFU is not stated: "
"""How a trainer's note begins that says why."""

ONCE = frozenset({str(Phase.UNATTRIBUTED), str(Phase.STARTUP), str(Phase.COMPILE)})
"""Phases that a run has once, however many samples it trains on: its start and its end."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one phase used in one stage.

    ``time_s`` is the mean over ranks, on the device's clock where there is one; ``energy_j`` is of
    all devices, None if it was refused.
    """

    time_s: float
    energy_j: float | None = None
    status: Status = Status.RESOLVED


@dataclass(frozen=True, slots=True)
class Joint:
    """Energy in J of phases that cannot be told apart, with bounds."""

    energy_j: float = 0.0
    low_j: float = 0.0
    high_j: float = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """Memory while one phase ran, in bytes: the rank's that held most there.

    ``quantity`` is allocated (torch's allocator of a GPU) or resident (a process, by the operating
    system); ``added`` is by how much one visit of the phase raised it, None where reads are too far
    apart to tell.
    """

    quantity: str
    peak: float
    added: float | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a run: the samples (tokens, steps) trained in it, and what its phases used."""

    samples: float
    phases: Mapping[str, Use]
    unidentified: Joint = field(default_factory=Joint)

    @property
    def time_s(self) -> float:
        """Seconds of all phases."""
        return sum(use.time_s for use in self.phases.values())

    @property
    def energy_j(self) -> float:
        """Of all phases and what could not be told apart."""
        return self.unidentified.energy_j + sum(
            use.energy_j for use in self.phases.values() if use.energy_j is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run as far as it counts: to its target, or to its end.

    ``block`` names what it shares with a run of the other side (its seed); ``reached`` is None
    without a target, ``stopped`` says that it ended there; ``energy`` says how its joules came
    about, None if there are none; ``meter_error`` is how far all that its meters show may be off,
    as a share. ``whole`` is what the phases used over all stages, estimated together: more data
    tell more phases apart than each stage does by itself. ``bound_share`` is the memory-bound part
    of a phase; those in ``measured_bound`` were measured by the device, the others were counted;
    ``uncounted`` says why a run could not count them that was asked to, ``no_mfu`` why its share of
    the device's peak is not stated.
    ``early`` holds (time_s, energy_j) at other marks, by the share of samples that sets them.
    ``memory`` is in bytes by component, the peak under "peak", ``held`` that of each phase, over
    all of the run. ``is_like`` holds what must agree
    for runs to be comparable, by name, ``settings`` what it was trained with, ``techniques`` the
    settings of each technique of its stack; ``g_per_kwh`` is the carbon intensity recorded with it;
    ``last`` has the last finite value of everything that it logged.
    """

    id: str
    stages: Mapping[str, Stage]
    name: str = ""
    block: str | None = None
    reached: bool | None = None
    stopped: bool = False
    quality: float | None = None
    energy: Provenance | None = Provenance.MEASURED
    meters: frozenset[str] = frozenset()
    meter_error: float = VENDOR_GAIN
    early: Mapping[float, tuple[float, float | None]] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    held: Mapping[str, Held] = field(default_factory=dict)
    bound_share: Mapping[str, float] = field(default_factory=dict)
    measured_bound: frozenset[str] = frozenset()
    uncounted: str = ""
    no_mfu: str = ""
    whole: Stage | None = None
    is_like: Mapping[str, Setting] = field(default_factory=dict)
    unit: str = "samples"
    ranks: int = 1
    g_per_kwh: float | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    techniques: Mapping[str, str] = field(default_factory=dict)
    last: Mapping[str, float] = field(default_factory=dict)

    @property
    def samples(self) -> float:
        """Samples of all stages."""
        return sum(stage.samples for stage in self.stages.values())

    @property
    def time_s(self) -> float:
        """Seconds of all stages."""
        return sum(stage.time_s for stage in self.stages.values())

    @property
    def all_stages(self) -> Stage:
        """What each phase used in all stages; a phase that one stage refuses is refused in all."""
        return self.whole or _joined([*self.stages.values()])

    def spent(self, phase: str) -> float:
        """Seconds in one phase, in all stages; 0 if it never came."""
        return sum(
            stage.phases[phase].time_s for stage in self.stages.values() if phase in stage.phases
        )

    @property
    def energy_j(self) -> float | None:
        """Of all stages; None if nothing tells it."""
        if self.energy is None:
            return None
        return sum(stage.energy_j for stage in self.stages.values())


def _joined(stages: Sequence[Stage]) -> Stage:
    refused = {
        phase
        for stage in stages
        for phase, use in stage.phases.items()
        if use.energy_j is None and use.time_s > 0
    }
    uses: dict[str, Use] = {}
    joint, low, high = 0.0, 0.0, 0.0
    for stage in stages:
        joint += stage.unidentified.energy_j
        low += stage.unidentified.low_j
        high += stage.unidentified.high_j
        for phase, use in stage.phases.items():
            before = uses.get(phase, Use(0.0, 0.0))
            energy = use.energy_j or 0.0
            if phase in refused:
                joint, low, high = joint + energy, low + energy, high + energy
                uses[phase] = Use(before.time_s + use.time_s, None, Status.NOT_IDENTIFIABLE)
                continue
            weak = Status.WEAK in (use.status, before.status)
            uses[phase] = Use(
                before.time_s + use.time_s,
                (before.energy_j or 0.0) + energy,
                Status.WEAK if weak else Status.RESOLVED,
            )
    return Stage(sum(stage.samples for stage in stages), uses, Joint(joint, low, high))
