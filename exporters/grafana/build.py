"""Makes phasewatt.json with Grafana's foundation SDK: ``python -m exporters.grafana.build``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probe.report.model import JsonValue

from .._shared import metrics
from .._shared.metrics import MetricDefinition
from . import READY

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders.timeseries import Panel

SOURCE = "${datasource}"
RATE = "$__rate_interval"
GPU_ENERGY = metrics.DEVICE_ENERGY["gpu"]


@dataclass(frozen=True, slots=True)
class Graph:
    """A panel of lines: pairs of a query and the name of its lines; ``stacked`` adds them up."""

    title: str
    about: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False
    wide: bool = False


def _series(metric: MetricDefinition) -> str:
    """The series of the chosen runs."""
    return f'{metric.prometheus_name}{{run=~"$run"}}'


def _rate(metric: MetricDefinition) -> str:
    return f"rate({_series(metric)}[{RATE}])"


def _summed_rate(metric: MetricDefinition, by: str) -> str:
    return f"sum by ({by}) ({_rate(metric)})"


GRAPHS = {
    "Energy": (
        Graph(
            "Power by phase",
            "Energy assigned to each phase per second; the phases add up to the devices' counters",
            "watt",
            ((_summed_rate(metrics.PHASE_ENERGY, "phase"), "{{phase}}"),),
            stacked=True,
            wide=True,
        ),
        Graph(
            "Power by device",
            "Rate of each GPU's energy counter, and its power limit",
            "watt",
            (
                (_summed_rate(GPU_ENERGY, "device"), "{{device}}"),
                (_series(metrics.DEVICE_POWER_LIMIT["gpu"]), "limit of {{device}}"),
            ),
        ),
        Graph(
            "Energy per step",
            "All GPUs of a run together",
            "joule",
            (
                (
                    f"{_summed_rate(GPU_ENERGY, 'run')} / "
                    f"(max by (run) ({_rate(metrics.STEPS)}) > 0)",
                    "{{run}}",
                ),
            ),
        ),
    ),
    "Phases": (
        Graph(
            "Time by phase",
            "Share of a rank's time in each phase",
            "percentunit",
            ((_summed_rate(metrics.PHASE_TIME, "rank, phase"), "{{phase}}, rank {{rank}}"),),
            stacked=True,
            wide=True,
        ),
        Graph(
            "Power while in a phase",
            "Energy assigned to a phase, divided by the time in it",
            "watt",
            (
                (
                    f"{_summed_rate(metrics.PHASE_ENERGY, 'run, phase')} / "
                    f"({_summed_rate(metrics.PHASE_TIME, 'run, phase')} > 0)",
                    "{{phase}}",
                ),
            ),
        ),
        Graph(
            "Energy by phase, with intervals",
            "Best estimate of each phase's energy since the run began, with its 95 % interval; "
            "a phase whose energy cannot be resolved has none",
            "joule",
            ((_series(metrics.PHASE_ENERGY_ESTIMATE), "{{phase}} {{bound}}"),),
        ),
    ),
    "Devices": (
        Graph(
            "Utilization",
            "Share of time in which the GPU was busy, as its driver reports it",
            "percentunit",
            ((_series(metrics.DEVICE_UTILIZATION["gpu"]), "{{device}}"),),
        ),
        Graph(
            "Memory in use",
            "",
            "bytes",
            ((_series(metrics.DEVICE_MEMORY_USED["gpu"]), "{{device}}"),),
        ),
        Graph(
            "Temperature",
            "",
            "celsius",
            ((_series(metrics.DEVICE_TEMPERATURE["gpu"]), "{{device}}"),),
        ),
        Graph(
            "Clocks",
            "",
            "hertz",
            ((_series(metrics.DEVICE_CLOCK["gpu"]), "{{device}} {{domain}}"),),
        ),
    ),
    "Health": (
        Graph("Steps per second", "", "ops", ((_rate(metrics.STEPS), "{{run}}"),)),
        Graph(
            "Missing data",
            "Sensor readings, and begins and ends of phases, that were not recorded",
            "short",
            (
                (_series(metrics.SENSOR_GAPS), "readings {{node}}"),
                (_series(metrics.EDGES_LOST), "phase edges {{node}}"),
            ),
        ),
        Graph(
            "Silence",
            "Time since the recorder last wrote its figures, and since a phase last changed",
            "s",
            (
                (_series(metrics.RECORDER_SILENCE), "recorder {{node}}"),
                (_series(metrics.RUN_IDLE), "training {{run}}"),
            ),
        ),
    ),
}


def dashboard() -> dict[str, JsonValue]:
    """The dashboard's JSON, built with the package grafana-foundation-sdk."""
    from grafana_foundation_sdk.builders import dashboard as board
    from grafana_foundation_sdk.builders import prometheus, timeseries
    from grafana_foundation_sdk.builders.common import (
        StackingConfig,
        VizLegendOptions,
        VizTooltipOptions,
    )
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common
    from grafana_foundation_sdk.models import dashboard as models

    source = models.DataSourceRef(type_val="prometheus", uid=SOURCE)

    def panel(graph: Graph) -> Panel:
        made = (
            timeseries.Panel()
            .title(graph.title)
            .description(graph.about)
            .unit(graph.unit)
            .datasource(source)
            .height(9)
            .span(24 if graph.wide else 12)
            .min(0)
            .fill_opacity(30 if graph.stacked else 5)
            .line_width(1)
            .legend(
                VizLegendOptions()
                .display_mode(common.LegendDisplayMode.TABLE)
                .placement(common.LegendPlacement.RIGHT)
                .show_legend(True)
                .calcs(["lastNotNull", "mean"])
            )
            .tooltip(VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        )
        if graph.stacked:
            made = made.stacking(StackingConfig().mode(common.StackingMode.NORMAL))
        for query, name in graph.queries:
            made = made.with_target(prometheus.Dataquery().expr(query).legend_format(name))
        return made

    content = (
        board.Dashboard("phasewatt")
        .uid("phasewatt")
        .tags(["phasewatt", "energy", "pytorch"])
        .description("Energy, power and time of each phase of a training")
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("browser")
        .readonly()
        .with_variable(
            board.DatasourceVariable("datasource").type("prometheus").label("Prometheus")
        )
        .with_variable(
            board.QueryVariable("run")
            .label("Run")
            .datasource(source)
            .query(f"label_values({metrics.RUN_INFO.prometheus_name}, run)")
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(models.VariableSort.ALPHABETICAL_DESC)
        )
    )
    for title, graphs in GRAPHS.items():
        content = content.with_row(board.Row(title))
        for graph in graphs:
            content = content.with_panel(panel(graph))
    return dict(json.loads(JSONEncoder(sort_keys=True).encode(content.build())))


if __name__ == "__main__":
    READY.write_text(json.dumps(dashboard(), indent=1) + "\n", encoding="utf-8")
