"""From the costs of runs to the objective of every configuration. No file is read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ...errors import NothingToReport, UsageError
from ...report.sentences import short
from ..statistics import FEWEST_RUNS
from . import intervals
from .front import places
from .model import Configuration, Constraint, Limit, ObjectiveReport, Place, State, Term
from .quantities import COSTS, GRADIENT_NORM, GRADIENT_VARIANCE, METERED, PAPER, label, unit
from .read import MISSED, Group

NO_INTERVAL = f"an interval needs {FEWEST_RUNS} or more"


def evaluate(
    groups: Sequence[Group],
    weights: Mapping[str, float] | None = None,
    limits: Sequence[Limit] = (),
    front: Sequence[str] = (),
    *,
    target: str | None = None,
    work: str = "samples",
    warnings: Sequence[str] = (),
) -> ObjectiveReport:
    """The paper's equations (1) to (3) for configurations, the first of which is the base.

    Args:
        weights: by quantity; None: 1 for each of time, memory and energy that was recorded of all.
        limits: the constraints.
        front: quantities of the Pareto front; by default those that have a weight.
        target: the metric's value up to which time and energy count, for the report.
        work: what samples are counted in, for the report.
        warnings: for the report.

    Raises:
        UsageError: the base, or the energy of any run, lacks what is weighed.
        NothingToReport: nothing that could be weighed is known of all runs.
    """
    lines = [*warnings]
    for name in (*(limit.quantity for limit in limits), *front):
        _check_logged(groups, name)
    if weights is None:
        weights = {name: 1.0 for name in PAPER if _can_be_weighed(groups, name)}
        if not weights:
            raise NothingToReport("no cost is known of all these runs, so none can be weighed")
        lines += [
            f"{label(name)} has no weight: {_why(groups, name)}"
            for name in PAPER
            if name not in weights
        ]
    lines += [
        f"{short(group.name, 60)} has one run: no interval, so none of its constraints is judged "
        "and nothing is dominated by it, or dominates it"
        for group in groups
        if len(group.runs) < FEWEST_RUNS
    ]
    weights = {name: weight for name, weight in weights.items() if weight}
    _check(groups, weights)
    base = groups[0]
    quantities = list(front) or list(weights)
    configurations = [_configuration(group, base, weights, limits, quantities) for group in groups]
    where = places(groups, quantities, [each.name for each in configurations if not each.feasible])
    lowest = min(
        (each for each in configurations if each.feasible and each.score is not None),
        key=lambda each: each.score or 0.0,
        default=None,
    )
    return ObjectiveReport(
        base=base.name,
        weights=weights,
        limits=limits,
        front=quantities,
        target=target,
        work=work,
        configurations=[
            replace(
                each,
                place=where[each.name][0],
                beaten_by=where[each.name][1],
                ties_with_lowest=lowest is not None
                and each.feasible
                and each is not lowest
                and _ties(group, groups[configurations.index(lowest)], base, weights),
            )
            for each, group in zip(configurations, groups, strict=True)
        ],
        lowest=None if lowest is None else lowest.name,
        warnings=lines,
    )


def _check(groups: Sequence[Group], weights: Mapping[str, float]) -> None:
    for name in weights:
        for group in groups if name in METERED else ():
            if any(run.value(name) is None and not run.meters for run in group.runs):
                raise UsageError(
                    f"{label(name)} has a weight, but {_why([group], name)}: give it the weight 0, "
                    "or record the runs with a meter (`probe doctor` says how)"
                )
        if not _known(groups[0], name):
            raise UsageError(
                f"{label(name)} has a weight, but the base does not know it: "
                f"{_why(groups[:1], name)}; give it the weight 0, or name another run first"
            )


def _can_be_weighed(groups: Sequence[Group], name: str) -> bool:
    """The base knows it, and others at most missed the target, which leaves only them without C."""
    return _known(groups[0], name) and all(
        run.value(name) is not None or run.reason(name) == MISSED
        for group in groups
        for run in group.runs
    )


def _check_logged(groups: Sequence[Group], name: str) -> None:
    """A metric that no run has is a slip of the pen."""
    runs = [run for group in groups for run in group.runs]
    if any(run.value(name) is not None or name in run.missing for run in runs):
        return
    names = sorted({name for run in runs for name in run.values} - {*COSTS})
    raise UsageError(f"no run logged {name!r}; they logged {', '.join(names) or 'nothing'}")


def _known(group: Group, quantity: str) -> bool:
    return all(run.value(quantity) is not None for run in group.runs)


def _why(groups: Sequence[Group], quantity: str) -> str:
    """Why a quantity is not known of all these runs, with the first configuration without it."""
    without = next((group for group in groups if not _known(group, quantity)), None)
    return (
        "" if without is None else f"{_why_not(without, quantity)} (of {short(without.name, 60)})"
    )


def _why_not(group: Group, quantity: str) -> str:
    """The reason of the first run without it, and how many runs are without it."""
    without = [run for run in group.runs if run.value(quantity) is None]
    some = (
        "" if len(without) == len(group.runs) else f" in {len(without)} of {len(group.runs)} runs"
    )
    return without[0].reason(quantity) + some


def _configuration(
    group: Group,
    base: Group,
    weights: Mapping[str, float],
    limits: Sequence[Limit],
    front: Sequence[str],
) -> Configuration:
    asked = [*(limit.quantity for limit in limits), *front]
    shown = [*COSTS, GRADIENT_NORM, GRADIENT_VARIANCE, *asked]
    terms = [_term(group, base, name, weights.get(name, 0.0)) for name in dict.fromkeys(shown)]
    total = intervals.score(group, base, weights)
    modelled = [run.modelled_j for run in group.runs if run.modelled_j is not None]
    return Configuration(
        name=group.name,
        ids=[run.id for run in group.runs],
        terms=terms,
        modelled_energy_j=fmean(modelled) if len(modelled) == len(group.runs) else None,
        score=None if total is None else total.value,
        score_interval=None if total is None else total.interval,
        reason=_reason(group, base, total, weights),
        constraints=[_constraint(group, limit) for limit in limits],
        place=Place.UNKNOWN,
    )


def _reason(
    group: Group, base: Group, total: intervals.Estimate | None, weights: Mapping[str, float]
) -> str:
    """Why C, or its interval, is not known; empty if both are."""
    if total is None:
        unknown = next((name for name in weights if not _known(group, name)), "")
        return f"{label(unknown)}: {_why_not(group, unknown)}"
    if group is base:
        return "the base: its C is the sum of the weights"
    if len(group.runs) < FEWEST_RUNS:
        return f"one run: {NO_INTERVAL}"
    if len(base.runs) < FEWEST_RUNS:
        return f"one run of the base: {NO_INTERVAL}"
    return "" if total.interval is not None else "no interval: the runs do not differ"


def _term(group: Group, base: Group, quantity: str, weight: float) -> Term:
    mean = intervals.mean(group, quantity)
    if mean is None:
        return Term(quantity, unit(quantity), weight=weight, reason=_why_not(group, quantity))
    of_base = intervals.mean(base, quantity)
    share = mean.value / of_base.value if of_base is not None and of_base.value else None
    return Term(
        quantity,
        unit(quantity),
        mean.value,
        mean.interval,
        share,
        weight,
        weight * share if weight and share is not None else None,
    )


def _constraint(group: Group, limit: Limit) -> Constraint:
    mean = intervals.mean(group, limit.quantity)
    value = None if mean is None else mean.value
    state, reason = judged(mean, limit)
    if mean is None:
        reason = _why_not(group, limit.quantity)
    return Constraint(
        limit, unit(limit.quantity), value, None if mean is None else mean.interval, state, reason
    )


def judged(mean: intervals.Estimate | None, limit: Limit) -> tuple[State, str]:
    """Whether a mean keeps a limit, and why that cannot be said if it cannot.

    Runs that are all the same decide it by their value: they have no interval.
    """
    if mean is None:
        return State.UNSAID, "it is not known"
    inside = mean.value <= limit.value if limit.upper else mean.value >= limit.value
    if mean.half is None:
        side = "within" if inside else "beyond"
        return State.UNSAID, f"one run, {side} the limit; {NO_INTERVAL}"
    margin = abs(limit.value - mean.value)
    if mean.half > margin or (mean.half == margin and mean.half and not inside):
        return State.UNSAID, "the limit lies within the 95 % interval"
    return (State.MET if inside else State.NOT_MET), ""


def _ties(group: Group, lowest: Group, base: Group, weights: Mapping[str, float]) -> bool:
    """True if it is not sure that C is more than the lowest one."""
    more = intervals.score_difference(group, lowest, base, weights)
    return more is not None and more.sign <= 0
