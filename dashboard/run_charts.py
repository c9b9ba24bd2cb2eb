"""The charts of a run's page, each from the data that it needs: name → title and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .chart_data import Chart, Power
from .data import power as reading
from .data import steps as stepping
from .data.ranks import crew
from .data.run import OpenRun
from .figures import memory, phases, power, quality, ranks, steps, waste
from .figures.timescale import TimeScale
from .urls import State


@dataclass(frozen=True, slots=True)
class View:
    """``first`` charts are drawn before all others, and again twice a second while a run goes on;
    others every few seconds. Those over ``time`` are when another part of it is looked at.
    """

    title: str
    draw: Callable[[OpenRun, State], Chart]
    first: bool = False
    time: bool = False
    wide: bool = False


def _scale(run: OpenRun) -> TimeScale:
    return TimeScale.of(run.duration_s)


def _span(run: OpenRun, state: State) -> tuple[float, float]:
    return state.within(run.duration_s)


def _asked(run: OpenRun, state: State) -> tuple[float, float] | None:
    """What the axis is set to; None lets it show all."""
    return None if state.span is None and state.last is None else _span(run, state)


def _phases(run: OpenRun, _: State) -> Chart:
    return phases.phases(run.overview())


def _power(run: OpenRun, state: State) -> Chart:
    return power.power(_watts(run, state), _scale(run), _asked(run, state), live=run.live)


def _heatmap(run: OpenRun, state: State) -> Chart:
    return power.heatmap(_watts(run, state), _scale(run), _asked(run, state))


def _watts(run: OpenRun, state: State) -> Power | None:
    return run.remember(
        ("watts", state), lambda: reading.power(run, _span(run, state), state.devices)
    )


def _anatomy(run: OpenRun, state: State) -> Chart:
    overview = run.overview()
    if not overview.steps:
        return steps.anatomy(None)
    low, high = _span(run, state)
    at = max(0.0, high - 2.0) if overview.live and state.span is None else (low + high) / 2
    return steps.anatomy(stepping.anatomy(run, at, overview.duration_s / overview.steps))


def _drift(run: OpenRun, _: State) -> Chart:
    return steps.drift(stepping.drift(run, run.step_times()))


def _waste(run: OpenRun, _: State) -> Chart:
    return waste.waste(run.overview())


def _memory(run: OpenRun, state: State) -> Chart:
    found = reading.levels(run, _span(run, state), memory.QUANTITIES, state.devices)
    return memory.memory(found, _scale(run), _asked(run, state))


def _quality(run: OpenRun, _: State) -> Chart:
    return quality.quality(run.overview())


VIEWS: Mapping[str, View] = {
    "phases": View("Energy by phase", _phases, first=True),
    "waste": View("What is not training", _waste),
    "power": View("Power over time", _power, first=True, time=True, wide=True),
    "heatmap": View("Device by device", _heatmap, time=True, wide=True),
    "anatomy": View("Inside a step", _anatomy, time=True),
    "drift": View("Step after step", _drift),
    "memory": View("Memory", _memory, time=True),
}
TABLES: Mapping[str, View] = {
    **VIEWS,
    "quality": View("Meters", _quality),
    "waiting": View("Waiting for other ranks", lambda run, _: ranks.waiting(crew(run))),
    "communication": View("Communication", lambda run, _: ranks.communication(crew(run))),
}


def drawn(run: OpenRun, name: str, state: State) -> Chart:
    """A chart of a run, made once for all tabs until there is something new."""
    return run.remember((name, state), lambda: _drawn(run, TABLES[name], state))


def _drawn(run: OpenRun, view: View, state: State) -> Chart:
    chart = view.draw(run, state)
    if view.time and chart.figure is not None:
        # A zoom by hand is kept until another part of the run is asked for.
        chart.figure["layout"]["xaxis"]["uirevision"] = state.query().get("t", "all")
    return chart
