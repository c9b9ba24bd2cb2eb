"""Which class of work a phase's time and energy belong to.

Decided once per comparison, on the base, and used for all its runs: faster arithmetic moves the
ridge point of a device, and work that is only classed differently has not become cheaper. In this
order:

measured    forward, backward, recompute and optimizer are memory-bound if the device shows that its
            DRAM was busier than its tensor cores
counted     else they are divided by how long each operation of a step would take at the device's
            peak rates (Williams 2009, "Roofline"): what waits for memory is memory-bound. The run
            holds that part (``roofline``), counted by ``watch(classify=True)``, or by
            :class:`optimizers.Trainer` in the run's config
by phase    else by the name of the phase alone, and memory-bound work is not separated
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ..model import Phase
from ..report.model import RateRow
from .model import Classified, MovedPhase
from .run_record import Trial

COMMUNICATION, MEMORY_BOUND = "communication", "memory-bound"
GRADIENT_HEAVY, COMPUTE = "gradient-heavy", "compute"
WAITING, OVERHEAD = "waiting", "overhead"
UNCLASSIFIED, UNIDENTIFIED = "unclassified", "unidentified"
CLASSES = (
    COMMUNICATION,
    MEMORY_BOUND,
    GRADIENT_HEAVY,
    COMPUTE,
    WAITING,
    OVERHEAD,
    UNCLASSIFIED,
    UNIDENTIFIED,
)

NOT_SEPARATED = "not separated: `classify=True`"

_DIVIDED: Mapping[str, str] = {
    Phase.FORWARD: COMPUTE,
    Phase.BACKWARD: GRADIENT_HEAVY,
    Phase.RECOMPUTE: GRADIENT_HEAVY,
    Phase.OPTIMIZER: GRADIENT_HEAVY,
}
_WHOLE: Mapping[str, str] = {
    Phase.COMMUNICATION: COMMUNICATION,
    Phase.INFERENCE: COMPUTE,
    Phase.DATA: WAITING,
    Phase.OTHER: WAITING,
    Phase.EVAL: OVERHEAD,
    Phase.CHECKPOINT: OVERHEAD,
    Phase.STARTUP: OVERHEAD,
    Phase.COMPILE: OVERHEAD,
    Phase.RESTART: OVERHEAD,
    Phase.UNATTRIBUTED: OVERHEAD,
}
# Phases that users name themselves, where the name says what they are.
_NAMED: Mapping[str, str] = {
    "clipping": GRADIENT_HEAVY,
    "clip": GRADIENT_HEAVY,
    "idle": WAITING,
    "wait": WAITING,
    "waiting": WAITING,
    "evaluate": OVERHEAD,
    "evaluation": OVERHEAD,
    "validate": OVERHEAD,
    "validation": OVERHEAD,
    "test": OVERHEAD,
    "save": OVERHEAD,
    "saving": OVERHEAD,
    "logging": OVERHEAD,
}
_MOVED = 0.1
_BUSY = 0.5  # of its peak: a unit that is less busy is no limit
_WEAKEST_FIRST = (Classified.BY_PHASE, Classified.COUNTED, Classified.MEASURED)


@dataclass(frozen=True, slots=True)
class PhaseClasses:
    """``shares``: phase → class → share of it, which add up to one; ``classified``: phase → how."""

    shares: Mapping[str, Mapping[str, float]]
    classified: Mapping[str, Classified]

    @classmethod
    def of_base(cls, bases: Sequence[Trial]) -> PhaseClasses:
        """The classes that the base's runs decide."""
        bound = _mean_shares(bases)
        shares: dict[str, dict[str, float]] = {
            str(phase): {name: 1.0} for phase, name in {**_WHOLE, **_NAMED}.items()
        }
        classified = dict.fromkeys(shares, Classified.BY_PHASE)
        for phase, rest in _DIVIDED.items():
            name = str(phase)
            if name not in bound:
                shares[name], classified[name] = {rest: 1.0}, Classified.BY_PHASE
                continue
            shares[name] = {MEMORY_BOUND: bound[name], rest: 1.0 - bound[name]}
            is_measured = all(
                (name if name in trial.bound_share else Phase.FORWARD) in trial.measured_bound
                for trial in bases
            )
            classified[name] = Classified.MEASURED if is_measured else Classified.COUNTED
        return cls(shares, classified)

    @property
    def memory_separated(self) -> bool:
        """Whether memory-bound work was told from the rest of its phase anywhere."""
        return any(how is not Classified.BY_PHASE for how in self.classified.values())

    def of(self, phase: str) -> Mapping[str, float]:
        """Class → share of a phase. ``forward/attention`` counts as forward."""
        return self.shares.get(phase) or self.shares.get(_parent(phase), {UNCLASSIFIED: 1.0})

    def how(self, phases: Iterable[str]) -> Classified:
        """How these were classed: the least certain way of any of them."""
        ways = {
            self.classified.get(phase) or self.classified.get(_parent(phase), Classified.BY_PHASE)
            for phase in phases
        }
        return next((way for way in _WEAKEST_FIRST if way in ways), Classified.BY_PHASE)


def _parent(phase: str) -> str:
    return phase.partition("/")[0]


def limited(rates: Iterable[RateRow]) -> dict[str, float]:
    """Phase → 1 if DRAM limits it, 0 if something else does; without phases that cannot be judged.

    Args:
        rates: of the report.
    """
    by_phase: dict[str, dict[str, float]] = {}
    for row in rates:
        if row.value is not None and row.phase in _DIVIDED:
            kept = by_phase.setdefault(row.phase, {})
            kept[row.quantity] = max(row.value, kept.get(row.quantity, 0.0))
    limits = {}
    for phase, values in by_phase.items():
        dram, tensor = values.get("dram_activity"), values.get("tensor_activity")
        if dram is None or tensor is None:
            continue
        if dram >= _BUSY and dram > tensor:
            limits[phase] = 1.0
        elif tensor >= dram or values.get("sm_activity", 0.0) >= _BUSY:
            limits[phase] = 0.0
    return limits


def moved(bases: Iterable[Trial], others: Iterable[Trial]) -> list[MovedPhase]:
    """Phases whose own limit is another one in the other runs."""
    base, other = _mean_shares(bases), _mean_shares(others)
    return [
        MovedPhase(phase, base[phase], other[phase])
        for phase in sorted(base.keys() & other.keys())
        if abs(base[phase] - other[phase]) > _MOVED
    ]


def _mean_shares(trials: Iterable[Trial]) -> dict[str, float]:
    """Phase → memory-bound part, where every run has it."""
    shares = [trial.bound_share for trial in trials]
    phases = set.intersection(*(set(share) for share in shares)) if shares else set()
    means = {phase: fmean(min(1.0, max(0.0, share[phase])) for share in shares) for phase in phases}
    # What is computed again is computed as it was the first time.
    if "forward" in means:
        means.setdefault("recompute", means["forward"])
    return means
