"""Makes phasewatt.json with Grafana's foundation SDK: ``python -m exporters.grafana.build``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import READY

SOURCE = "${datasource}"
OF = '{run=~"$run"}'
RATE = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Graph:
    """A panel of lines: pairs of a query and the name of its lines; ``stacked`` adds them up."""

    title: str
    about: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False
    wide: bool = False


def _rate(metric: str, by: str, more: str = "") -> str:
    return f'sum by ({by}) (rate({metric}{{run=~"$run"{more}}}[{RATE}]))'


GRAPHS = {
    "Energy": (
        Graph(
            "Power by phase",
            "Joules handed to each phase per second; they add up to the devices' own counters",
            "watt",
            ((_rate("probe_phase_energy_joules_total", "phase"), "{{phase}}"),),
            stacked=True,
            wide=True,
        ),
        Graph(
            "Power by device",
            "Rate of each card's energy counter, and its cap",
            "watt",
            (
                (_rate("probe_gpu_energy_joules_total", "device"), "{{device}}"),
                (f"probe_gpu_power_limit_watts{OF}", "cap of {{device}}"),
            ),
        ),
        Graph(
            "Energy per step",
            "Of all cards of a run",
            "joule",
            (
                (
                    f"{_rate('probe_gpu_energy_joules_total', 'run')} / "
                    f"(max by (run) (rate(probe_steps_total{OF}[{RATE}])) > 0)",
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
            (
                (
                    'sum by (rank, phase) (rate(probe_phase_seconds_total{run=~"$run"}'
                    f"[{RATE}]))",
                    "{{phase}}, rank {{rank}}",
                ),
            ),
            stacked=True,
            wide=True,
        ),
        Graph(
            "Power while in a phase",
            "Energy handed to a phase over the time in it",
            "watt",
            (
                (
                    f"{_rate('probe_phase_energy_joules_total', 'run, phase')} / "
                    f"({_rate('probe_phase_seconds_total', 'run, phase')} > 0)",
                    "{{phase}}",
                ),
            ),
        ),
        Graph(
            "Estimates with their intervals",
            "Best estimate of each phase's energy since the "
            "begin, with its 95 % interval; a refused phase has none",
            "joule",
            ((f"probe_phase_energy_estimate_joules{OF}", "{{phase}} {{bound}}"),),
        ),
    ),
    "Devices": (
        Graph(
            "Utilization",
            "As the driver tells it: share of time in which anything ran",
            "percentunit",
            ((f"probe_gpu_utilization_ratio{OF}", "{{device}}"),),
        ),
        Graph("Memory in use", "", "bytes", ((f"probe_gpu_memory_used_bytes{OF}", "{{device}}"),)),
        Graph(
            "Temperature", "", "celsius", ((f"probe_gpu_temperature_celsius{OF}", "{{device}}"),)
        ),
        Graph("Clocks", "", "hertz", ((f"probe_gpu_clock_hertz{OF}", "{{device}} {{domain}}"),)),
    ),
    "Is it well?": (
        Graph(
            "Steps per second", "", "ops", ((f"rate(probe_steps_total{OF}[{RATE}])", "{{run}}"),)
        ),
        Graph(
            "What is missing",
            "Sensor readings and phase edges that should have been recorded",
            "short",
            (
                (f"probe_sensor_gaps_total{OF}", "gaps {{node}}"),
                (f"probe_edges_lost_total{OF}", "edges {{node}}"),
            ),
        ),
        Graph(
            "Silence",
            "Since the recorder last said anything, and since a phase last changed",
            "s",
            (
                (f"probe_page_age_seconds{OF}", "recorder {{node}}"),
                (f"probe_run_idle_seconds{OF}", "training {{run}}"),
            ),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
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

    def panel(graph: Graph) -> Any:
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
        .description("Which phase of the training burns the energy")
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
            .query("label_values(probe_run_info, run)")
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


def queries(content: dict[str, Any]) -> list[str]:
    """Every Prometheus expression of a dashboard."""
    return [target["expr"] for panel in content["panels"] for target in panel.get("targets", ())]


if __name__ == "__main__":
    READY.write_text(json.dumps(dashboard(), indent=1) + "\n", encoding="utf-8")
