"""What a reader of the report must not miss, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...analysis.base import RunAnalysis
from ...analysis.carbon_and_price import Tariffs
from ...clock import Anchor
from ...model import Phase, RunStatus
from ...simulated_card import LINE
from ...timeline.phase_totals import PhaseTotals
from ...units import NS_PER_S
from ..numbers import duration

_INFERRED = 0.05  # share of forward that matters
_MANY_VISITS = 10
_FIRST_OF_PHASE, _FIRST_OF_RUN = 0.3, 0.03  # shares from which a slow first visit is named


def uncovered(analysis: RunAnalysis, tariffs: Tariffs) -> list[str]:
    """Tariffs that cannot be read, or that do not cover the run: one line each."""
    anchor = Anchor(**analysis.reader.meta["anchor"])
    silent = [
        f"{tariff.label} says nothing of this run's time: no {what} is reckoned from it"
        for what, tariff in (("CO2e", tariffs.intensity), ("cost", tariffs.price))
        if tariff is not None and not tariff.covers(analysis.run, anchor)
    ]
    return [*tariffs.problems, *silent]


def warnings(analysis: RunAnalysis) -> list[str]:
    """All other limits of what the report says, one line each, without repeats."""
    reader, devices, phase_totals = analysis.reader, analysis.devices, analysis.phase_totals
    meta = reader.meta
    lines = [LINE] if meta.get("simulated") else []
    lines += [line for line in meta.get("warnings") or [] if isinstance(line, str)]
    lines += [
        f"{path.relative_to(reader.store)} is damaged: what it held is missing here"
        for path in sorted(reader.damaged)
    ]
    lines += [
        f"{path.relative_to(reader.store)} is damaged: raw data were used instead"
        for path in sorted(reader.made_again)
    ]
    lines += unseen_forward(phase_totals)
    lines += _thinned(analysis)
    together = [d.source.device for d in devices if d.source.id in analysis.shared]
    if together:
        lines.append(
            f"{', '.join(together)}: other trainings of the group used "
            f"{'it' if len(together) == 1 else 'them'} at the same time, so that energy is the "
            "group's and no training's"
        )
    if not together and not any(d.source.in_total for d in devices):
        lines.append(
            "no energy meter was found, so there is no measured energy: `probe doctor` says why"
        )
    for device in devices:
        source = device.source
        if not source.attributable:
            lines.append(f"{source.device}: {source.note or 'shared'}; no energy is attributed")
        elif device.curve is None and source.in_total and not analysis.faults.of(source):
            lines.append(f"{source.device}: the run was too short for its meter to move twice")
        elif device.curve is not None and device.curve.resets:
            lines.append(
                f"{source.device}: its counter started anew {device.curve.resets} times; "
                "energy across that moment is not counted"
            )
    forward_s = sum(t.seconds.get(code, 0.0) for t in phase_totals for code in _forward(t))
    inferred_s = sum(t.inferred_s for t in phase_totals)
    if inferred_s > _INFERRED * forward_s:
        lines.append(
            f"{100 * inferred_s / forward_s:.0f} % of forward were inferred, for no module was "
            'called there: `with run.phase("forward"):` around the computation says exactly'
        )
    lines += slow_first_visits(phase_totals, (analysis.run[1] - analysis.run[0]) / NS_PER_S)
    threads = any(totals.in_threads for totals in phase_totals)
    for device in devices:
        source = device.source
        if (
            (threads or len(phase_totals) > 1)
            and source.in_total
            and device.curve is not None
            and (analysis.owner_of(source) is None)
        ):
            who = "threads that train at the same time" if threads else "ranks"
            lines.append(f"{source.device}: several {who} share it, so its energy is unattributed")
    # The simulated card has no other clock than the host's.
    cards = [d for d in devices if d.source.is_accelerator and not d.source.simulated]
    if phase_totals and not analysis.on_device and cards:
        lines.append(
            "no device timestamps were recorded: GPU energy is attributed to phases on the host's "
            "clock, and the host runs ahead of the GPU"
        )
    lost = sum(g.count for g in analysis.gaps if g.what.startswith("edges of"))
    if lost:
        lines.append(
            f"{lost} edges found the ring full and are missing; their time is unattributed"
        )
    for gap in analysis.gaps:
        if gap.what == "recorder":
            seconds = (gap.end_ns - gap.begin_ns) / 1e9
            lines.append(f"the recorder was restarted: no samples for {seconds:.1f} s")
    lines += analysis.faults.lines()
    if meta.get("carbon_problem"):
        lines.append(str(meta["carbon_problem"]))
    if reader.status is RunStatus.RUNNING:
        lines.append("the run is still going on: numbers are those of this moment")
    return list(dict.fromkeys(lines))


def slow_first_visits(phase_totals: Sequence[PhaseTotals], run_s: float) -> list[str]:
    """Phases of many visits that are largely their first one, as an import or a compiler makes it.

    In a short run such a phase looks as if it always took so much.
    """
    slowest: dict[str, tuple[float, float]] = {}
    for totals in phase_totals:
        for code, first_s in totals.first_s.items():
            name, spent_s = totals.name(code), totals.seconds[code]
            is_many = name != Phase.OTHER and totals.counts.get(code, 0) >= _MANY_VISITS
            if is_many and first_s >= max(_FIRST_OF_PHASE * spent_s, _FIRST_OF_RUN * run_s):
                slowest[name] = max(slowest.get(name, (0.0, 0.0)), (first_s, spent_s))
    return [
        f"the first visit of {name} took {duration(first_s)} of its {duration(spent_s)} (imports, "
        "allocations, a compiler): a longer run makes its share smaller, and `probe report --from "
        "SECONDS` leaves it out"
        for name, (first_s, spent_s) in slowest.items()
    ]


def _forward(totals: PhaseTotals) -> list[int]:
    return [code for code, name in totals.names.items() if name == Phase.FORWARD]


def unseen_forward(phase_totals: Sequence[PhaseTotals]) -> list[str]:
    """One line if gradients were computed, but no forward was seen."""
    visits = Counter[str]()
    for totals in phase_totals:
        for code, count in totals.counts.items():
            visits[totals.name(code).partition("/")[0]] += count
    if visits[Phase.FORWARD] or visits[Phase.BACKWARD] < _MANY_VISITS:
        return []
    return [
        "no forward was seen, so its time is in `other`: the model is called inside a function "
        "that torch.compile compiled, or is no module. Compile the model itself "
        '(`torch.compile(model)`), or put `with run.phase("forward"):` around the computation'
    ]


def _thinned(analysis: RunAnalysis) -> list[str]:
    """What was thinned, and what that means for the figures; one line."""
    if analysis.thinned_until_ns is None:
        return []
    if analysis.recompute_refused:
        so = "so --recompute has not enough left: these are the figures that the recorder summed up"
    elif analysis.is_from_raw_data:
        so = "so phases are known where edges were kept, and their other time is unattributed"
    else:
        so = "the figures here were summed up before"
    seconds = (analysis.thinned_until_ns - analysis.whole[0]) / NS_PER_S
    return [
        f"raw data of the first {_length(seconds)} were thinned (one minute per hour, the first "
        f"steps and a value every 10 s are kept); {so}"
    ]


def _length(seconds: float) -> str:
    for size_s, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size_s:
            return f"{seconds / size_s:.1f} {unit}"
    return f"{seconds:.0f} s"
