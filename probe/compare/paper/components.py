"""Table III: each technique that a cumulative ablation added, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Provenance
from ..gain import Gain, Interval, closed, percent_of
from .ablation_steps import AblationStep
from .model import NOT_MEASURED, ComponentRow, PaperTable
from .results import GB
from .stated import BASELINE, STEPS

_MIN = 60.0


def components_table(steps: Sequence[AblationStep] | None) -> PaperTable:
    """The steps, then the paper's that were not made; None: no cumulative ablation was given.

    The paper's row is beside a step whose techniques so far are those of the paper's step, with
    whatever options.
    """
    rows: list[ComponentRow] = []
    if steps:
        rows.append(_baseline(steps[0]))
    else:
        rows.append(ComponentRow(what="baseline", ours=NOT_MEASURED, paper=BASELINE))
    techniques: frozenset[str] = frozenset()
    made = set()
    for step in steps or ():
        techniques |= {step.name}
        made.add(techniques)
        rows.append(_row(step, techniques))
    rows += [
        ComponentRow(what=stated.name, ours=NOT_MEASURED, paper=stated)
        for at, stated in STEPS.items()
        if at not in made
    ]
    metric = steps[0].metric if steps else None
    return PaperTable(
        "III",
        "components, one added after the other",
        rows,
        _quality_name(metric) or "accuracy (%)",
    )


def _baseline(first: AblationStep) -> ComponentRow:
    return ComponentRow(
        what="baseline",
        time=_in(first.in_all_time.base, _MIN),
        memory=_in(first.in_all_memory.base, GB),
        quality=_quality(first.metric, first.base_quality),
        paper=BASELINE,
    )


def _row(step: AblationStep, techniques: frozenset[str]) -> ComponentRow:
    time, memory = step.in_all_time, step.in_all_memory
    energy = step.in_all_energy
    metered = energy.provenance is Provenance.MEASURED
    missed = time.gain is None and time.base is not None
    return ComponentRow(
        what=f"+ {step.technique}",
        time=None if missed else _in(time.other, _MIN),
        memory=_in(memory.other, GB),
        quality=_quality(step.metric, step.quality),
        faster=time.percent,
        interval_faster=_percents(time),
        less_memory=memory.percent,
        interval_less_memory=_percents(memory),
        less_energy=energy.percent if metered else None,
        interval_less_energy=_percents(energy) if metered else None,
        verdict=None if time.gain is None else str(time.verdict),
        paper=STEPS.get(techniques),
    )


def share_of(technique: str, steps: Sequence[AblationStep] | None) -> float | None:
    """A step's part of the time that all steps together save, in %; None if they save none."""
    gained = {step.name: step.time_s.gain for step in steps or ()}
    if not steps or technique not in gained or any(gain is None for gain in gained.values()):
        return None
    saved = sum(gain or 0.0 for gain in gained.values())
    return 100 * (gained[technique] or 0.0) / saved if saved > 0 else None


def _percents(gained: Gain) -> Interval | None:
    if gained.interval is None or not gained.base:
        return None
    return closed(percent_of(gained.base, gained.interval))


def _in(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _is_accuracy(metric: str | None) -> bool:
    return metric is not None and "acc" in metric


def _quality_name(metric: str | None) -> str:
    if _is_accuracy(metric):
        return "accuracy (%)"
    return (metric or "").removeprefix("eval_")


def _quality(metric: str | None, value: float | None) -> float | None:
    return 100 * value if _is_accuracy(metric) and value is not None else value
