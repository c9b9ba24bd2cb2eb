"""Architecture patterns: what each kind of module costs, of runs watched with ``modules=True``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...model import Phase, Provenance
from ...ring.layout import AllocatorFigure
from ..model import Comparison
from ..run_record import Trial
from .ablation_steps import AblationStep
from .both_sides import gain_row, measured_row, why_no_interval
from .components import share_of
from .model import NOT_MEASURED, KeptMemoryRow, PaperFigures, PaperRow, PaperTable, PeakMemoryRow
from .results import GB
from .stated import FASTER_ATTENTION, LESS_MEMORY, SHARE_OF_PRECISION

KINDS = ("attention", "mlp", "convolution", "norm")
_MS, _MB = 1e3, 1e6
NOT_TOLD_APART = "not told apart"


def patterns_table(
    base: Sequence[Trial],
    other: Sequence[Trial],
    comparison: Comparison,
    steps: Sequence[AblationStep] | None = None,
) -> PaperTable:
    """Time and joules per sample and memory by kind of module, beside the paper's figures."""
    seen = [kind for kind in KINDS if _phases(kind, [*base, *other])]
    transformer, cnn = "attention" in seen, "convolution" in seen and "attention" not in seen
    rows: list[PaperRow] = []
    for kind in seen or ("attention",):  # of which the paper states something
        rows += _of_kind(kind, base, other)
        if seen:
            rows += _memory_of_kind(kind, base, other)
    if not seen:
        rows.append(PaperRow(what="memory by kind", unit="GB", ours=NOT_MEASURED))
    if not cnn:
        total = comparison.memory_bytes
        without = why_no_interval(base, other)
        rows.append(gain_row("peak memory, all", "GB", total, GB, without, LESS_MEMORY))
    if not transformer:
        share = share_of("precision", steps)
        rows.append(
            PaperRow(
                what="precision's part of the speed-up",
                unit="%",
                other=share,
                ours=NOT_MEASURED if share is None else None,
                paper=SHARE_OF_PRECISION,
            )
        )
    name = "a transformer" if transformer else "a CNN" if cnn else "not watched with modules=True"
    return PaperTable("", f"architecture patterns: {name}", rows)


def _phases(kind: str, trials: Sequence[Trial]) -> list[str]:
    """The phases of a kind that some run has."""
    names = (f"{Phase.FORWARD}/{kind}", f"{Phase.BACKWARD}/{kind}")
    return [name for name in names if any(trial.spent(name) for trial in trials)]


def _named(kind: str, phases: Sequence[str]) -> str:
    return kind if len(phases) != 1 else f"{kind}, {phases[0].partition('/')[0]} only"


def _of_kind(kind: str, base: Sequence[Trial], other: Sequence[Trial]) -> list[PaperRow]:
    phases = _phases(kind, [*base, *other])
    name = _named(kind, phases)
    unit = base[0].unit.removesuffix("s")
    stated: PaperFigures | None = FASTER_ATTENTION if kind == "attention" else None

    def per_sample(of: Callable[[Trial], float | None]) -> Callable[[Trial], float | None]:
        def value(trial: Trial) -> float | None:
            spent = of(trial)
            return spent / trial.samples if spent and trial.samples else None

        return value

    def seconds(trial: Trial) -> float:
        return _MS * sum(trial.spent(phase) for phase in phases)

    def joules(trial: Trial) -> float | None:
        uses = [trial.all_stages.phases.get(phase) for phase in phases]
        joules_of_phases = [
            use.energy_j for use in uses if use is not None and use.energy_j is not None
        ]
        if (
            trial.energy is not Provenance.MEASURED
            or not phases
            or len(joules_of_phases) < len(phases)
        ):
            return None
        return sum(joules_of_phases)

    time = measured_row(f"{name}: time", f"ms/{unit}", base, other, per_sample(seconds), stated)
    energy = measured_row(f"{name}: energy", f"J/{unit}", base, other, per_sample(joules))
    if energy.ours and phases and all(t.energy is Provenance.MEASURED for t in (*base, *other)):
        energy = replace(energy, ours=NOT_TOLD_APART)  # runs too short, or steps too regular
    return [time, energy]


def _memory_of_kind(kind: str, base: Sequence[Trial], other: Sequence[Trial]) -> list[PaperRow]:
    """The peak of all memory while modules of the kind ran; what one forward of one kept.

    The peak is of all memory at that time, also what other modules hold. What a forward adds is the
    kind's own, and only the allocator's reads are close enough to show it.
    """
    phases = _phases(kind, [*base, *other])
    name = _named(kind, phases)
    trials = [*base, *other]
    quantities = {
        trial.held[phase].quantity for trial in trials for phase in phases if phase in trial.held
    }
    if len(quantities) != 1:  # none, or two that are not the same thing
        return [PaperRow(what=f"{name}: peak memory", unit="GB", ours=NOT_MEASURED)]
    (quantity,) = quantities

    def peak(trial: Trial) -> float | None:
        return max((trial.held[p].peak / GB for p in phases if p in trial.held), default=None)

    def kept(trial: Trial) -> float | None:
        held = trial.held.get(f"{Phase.FORWARD}/{kind}")
        return None if held is None or held.added is None else held.added / _MB

    what = f"{name}: peak {quantity}"
    rows = [measured_row(what, "GB", base, other, peak, kind=PeakMemoryRow)]
    if quantity == str(AllocatorFigure.ALLOCATED):
        what = f"{kind}: kept by one forward"
        rows.append(measured_row(what, "MB", base, other, kept, kind=KeptMemoryRow))
    return rows
