"""Which class of work a phase's time and energy belong to.

Decided once per comparison, on the base, and used for all its runs: faster arithmetic moves the
ridge point, and a span that is called something else has gained nothing. Forward, backward,
recompute and optimizer are memory-bound if the device says that its DRAM was busier than its tensor
cores. Where it does not say, they are divided by how long each operation would take at the device's
peaks (Williams 2009), and operations that wait for memory count as memory-bound; a run tells that
part (``roofline`` in its config, which :class:`optimizers.Trainer` counts). Without either they are
unclassified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from ..model import Phase
from ..report.model import RateRow
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

_WHOLE = {
    Phase.COMMUNICATION: COMMUNICATION,
    Phase.DATA: WAITING,
    Phase.EVAL: OVERHEAD,
    Phase.CHECKPOINT: OVERHEAD,
    Phase.STARTUP: OVERHEAD,
    Phase.COMPILE: OVERHEAD,
    Phase.INFERENCE: COMPUTE,
    Phase.OTHER: OVERHEAD,
    Phase.UNATTRIBUTED: OVERHEAD,
}
_DIVIDED = {
    Phase.FORWARD: COMPUTE,
    Phase.BACKWARD: GRADIENT_HEAVY,
    Phase.RECOMPUTE: GRADIENT_HEAVY,
    Phase.OPTIMIZER: GRADIENT_HEAVY,
}
_MOVED = 0.1
_BUSY = 0.5  # of its peak: a unit that is less busy is no limit

ClassShares = Mapping[str, Mapping[str, float]]


def classes(bases: Iterable[Trial]) -> ClassShares:
    """Phase → class → share, which add up to one; decided on the base's runs."""
    measured = _mean_shares(bases)
    shares: dict[str, dict[str, float]] = {str(p): {c: 1.0} for p, c in _WHOLE.items()}
    for phase, rest in _DIVIDED.items():
        bound = measured.get(str(phase))
        if bound is None:
            shares[str(phase)] = {UNCLASSIFIED: 1.0}
        else:
            shares[str(phase)] = {MEMORY_BOUND: bound, rest: 1.0 - bound}
    return shares


def of(shares: ClassShares, phase: str) -> Mapping[str, float]:
    """Class → share of a phase.

    ``forward/attention`` counts as forward; a phase that the user named is unclassified.
    """
    return shares.get(phase) or shares.get(phase.partition("/")[0], {UNCLASSIFIED: 1.0})


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


def moved(bases: Iterable[Trial], others: Iterable[Trial]) -> list[dict[str, float | str]]:
    """Phases whose own limit is another one in the other runs."""
    base, other = _mean_shares(bases), _mean_shares(others)
    return [
        {"phase": phase, "memory_bound_base": base[phase], "memory_bound_other": other[phase]}
        for phase in sorted(base.keys() & other.keys())
        if abs(base[phase] - other[phase]) > _MOVED
    ]


def _mean_shares(trials: Iterable[Trial]) -> dict[str, float]:
    """Phase → memory-bound part, where every run tells it."""
    shares = [trial.bound_share for trial in trials]
    phases = set.intersection(*(set(share) for share in shares)) if shares else set()
    means = {phase: fmean(min(1.0, max(0.0, share[phase])) for share in shares) for phase in phases}
    # What is computed again is computed as it was the first time.
    if "forward" in means:
        means.setdefault("recompute", means["forward"])
    return means
