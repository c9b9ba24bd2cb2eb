"""The charts of a run, each from the data that it needs: name → title and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from probe.model import Provenance

from .chart_data import Chart, Power
from .data import logged as logged_values
from .data import power as power_data
from .data import steps as step_data
from .data.cache import cached
from .data.phase_power import phase_power as split_by_phase
from .data.ranks import job_view
from .data.run import OpenRun
from .figures import (
    flame,
    heatmap,
    logged,
    memory,
    phase_power,
    phases,
    power,
    quality,
    ranks,
    steps,
    waste,
)
from .figures.style import TimeScale
from .urls import Selection


@dataclass(frozen=True, slots=True)
class ChartKind:
    """A chart of a run, and when it is drawn.

    ``first`` charts are drawn before all others, and twice a second while a run is live; the others
    every few seconds. Charts over ``time`` are drawn again when another part of it is selected.
    A chart of ``several`` devices has no card where there is one, an ``optional`` one none where
    there is nothing to draw. One of ``values`` follows what was logged. ``height`` is about what
    its figure will have, in pixels; :func:`rooms` knows it better.
    """

    title: str
    draw: Callable[[OpenRun, Selection], Chart]
    first: bool = False
    time: bool = False
    wide: bool = False
    several: bool = False
    optional: bool = False
    values: bool = False
    height: int = 300


def rooms(run: OpenRun) -> dict[str, int]:
    """Charts that the page of a run is expected to have → about the height (px) of each figure.

    From what is known at once, so that the page keeps the place of what comes later. Raises
    StoreError.
    """
    sources = [meter.source for meter in power_data.main_meters(run.meters())]
    modelled = [source.provenance is Provenance.MODELLED for source in sources]
    metered, ranks = len(heatmap.comparable(modelled)), len(run.reader.ranks())
    heights = {name: kind.height for name, kind in CHARTS.items()}
    heights["power"] = power.height(model_beside=0 < metered < len(sources))
    heights["heatmap"] = heatmap.height(metered)
    heights["anatomy"] = max(heights["anatomy"], steps.height(ranks, has_power=metered > 0))
    absent = {"heatmap"} if metered < 2 else set()
    absent |= {"burn"} if not metered or not ranks else set()
    absent |= set() if ranks else {"logged"}
    return {name: height for name, height in heights.items() if name not in absent}


@cached
def draw(run: OpenRun, name: str, selection: Selection) -> Chart:
    """A chart of a run, one of :data:`TABLES`. Raises StoreError, KeyError."""
    kind = TABLES[name]
    chart = kind.draw(run, selection if kind.values else selection.of_devices())
    if kind.time and chart.figure is not None:
        # A zoom by hand is kept until another part of the run is asked for.
        layout = chart.figure["layout"]
        axis = layout["xaxis"]
        assert isinstance(axis, Mapping)
        layout["xaxis"] = {**axis, "uirevision": selection.query().get("t", "all")}
    return chart


@cached
def _watts(run: OpenRun, selection: Selection) -> Power | None:
    return power_data.power(run, selection.within(run.duration_s), selection.devices)


def _axis_range(run: OpenRun, selection: Selection) -> tuple[float, float] | None:
    """What the time axis is set to; None lets it show all."""
    if selection.span is None and selection.last is None:
        return None
    return selection.within(run.duration_s)


def _power(run: OpenRun, selection: Selection) -> Chart:
    scale = TimeScale.of(run.duration_s)
    axis_range = _axis_range(run, selection)
    return power.power(_watts(run, selection), scale, axis_range, live=run.live)


def _waste(run: OpenRun, _: Selection) -> Chart:
    beside = phases.phases(run.report_now()).figure
    height = 0 if beside is None else int(str(beside["layout"]["height"]))
    return waste.waste(run.report_now(), height)


def _phase_power(run: OpenRun, selection: Selection) -> Chart:
    scale = TimeScale.of(run.duration_s)
    split = split_by_phase(run, _watts(run, selection))
    return phase_power.phase_power(split, scale, _axis_range(run, selection))


def _values(run: OpenRun, selection: Selection) -> Chart:
    span = _axis_range(run, selection)
    return logged.logged(logged_values.series(run, selection.value, selection.over, span))


def _heatmap(run: OpenRun, selection: Selection) -> Chart:
    scale = TimeScale.of(run.duration_s)
    return heatmap.heatmap(_watts(run, selection), scale, _axis_range(run, selection))


def _anatomy(run: OpenRun, selection: Selection) -> Chart:
    report = run.report_now()
    if not report.run.steps:
        return steps.anatomy(None)
    low, high = selection.within(run.duration_s)
    newest = not report.final and selection.span is None
    at_s = max(0.0, high - 2.0) if newest else (low + high) / 2
    shown = step_data.anatomy(run, at_s, report.run.duration_s / report.run.steps)
    if shown is not None and flame.has_modules(shown):
        return flame.flame(shown)
    return steps.anatomy(shown)


def _drift(run: OpenRun, _: Selection) -> Chart:
    return steps.drift(step_data.drift(run, run.step_times()))


def _memory(run: OpenRun, selection: Selection) -> Chart:
    span = selection.within(run.duration_s)
    levels = power_data.levels(run, span, memory.QUANTITIES, selection.devices)
    return memory.memory(levels, TimeScale.of(run.duration_s), _axis_range(run, selection))


CHARTS: Mapping[str, ChartKind] = {
    "phases": ChartKind(
        "Energy by phase", lambda run, _: phases.phases(run.report_now()), first=True, height=312
    ),
    "waste": ChartKind("What is not training", _waste, height=312),
    "power": ChartKind("Power over time", _power, first=True, time=True, wide=True),
    "burn": ChartKind(
        "Power by phase", _phase_power, time=True, wide=True, optional=True, height=320
    ),
    "logged": ChartKind(
        "What was logged", _values, time=True, wide=True, optional=True, values=True
    ),
    "heatmap": ChartKind("Device by device", _heatmap, time=True, wide=True, several=True),
    "anatomy": ChartKind("Inside a step", _anatomy, time=True, height=260),
    "drift": ChartKind("Step after step", _drift, height=260),
    "memory": ChartKind("Memory", _memory, time=True, wide=True, height=memory.HEIGHT),
}
# What has a table and a CSV: the charts of a run's page, and what other pages show of a run.
TABLES: Mapping[str, ChartKind] = {
    **CHARTS,
    "quality": ChartKind("Meters", lambda run, _: quality.quality(run.report_now())),
    "waiting": ChartKind("Waiting for other ranks", lambda run, _: ranks.waiting(job_view(run))),
    "communication": ChartKind("Communication", lambda run, _: ranks.communication(job_view(run))),
}
