"""Live pages as OTLP: names of the conventions, sums from the run's begin, sent again and again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Sum
from opentelemetry.semconv._incubating.attributes import hw_attributes
from opentelemetry.semconv._incubating.metrics import hw_metrics

from exporters import ExportRefused
from exporters._shared import metrics
from exporters.otlp import points
from exporters.otlp.pusher import Pusher, page_data
from tests.fakes import processes
from tests.fakes.otlp_collector import Collector, figures

from .test_prometheus_metrics import run


def test_what_is_called_hw_is_in_the_conventions() -> None:
    conventions = {
        value
        for module in (hw_metrics, hw_attributes)
        for name, value in vars(module).items()
        if name.startswith("HW_") and isinstance(value, str)
    }
    source = Path(points.__file__).read_text(encoding="utf-8")
    attributes = set(re.findall(r'"(hw\.[a-z._]+)"', source))
    names = {
        metric.name
        for metric in vars(metrics).values()
        if isinstance(metric, metrics.MetricDefinition) and metric.name.startswith("hw.")
    }
    assert len(attributes) == 4 and len(names) == 8 and attributes | names <= conventions
    assert set(points._TYPES.values()) <= {kind.value for kind in hw_attributes.HwTypeValues}


def test_a_live_page_counts_from_the_begin() -> None:
    live = run()
    data = page_data(live, live.live.pages[0])
    (scope,) = data.resource_metrics[0].scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    energy = metrics["hw.energy"]
    assert energy.unit == "J" and isinstance(energy.data, Sum) and energy.data.is_monotonic
    (point,) = energy.data.data_points
    assert point.value == 1000.0 and point.attributes["hw.id"] == "u"
    assert point.start_time_unix_nano == 10**18 + 10**9
    assert isinstance(metrics["hw.power"].data, Gauge)
    given = [p.value for p in metrics["phasewatt.phase.energy"].data.data_points]
    assert sum(given) == 1000.0
    (modelled,) = metrics["phasewatt.modelled.energy"].data.data_points
    assert modelled.value == 80.0 and modelled.attributes["hw.type"] == "cpu"


def test_live_runs_are_sent_until_the_end() -> None:
    with Collector() as collector:
        pusher = Pusher(lambda: [run(name="a\nb")], collector.url, every_s=0.05)
        assert collector.arrived.wait(processes.HUNG_S)
        pusher.close()
    assert len(collector.requests) >= 2  # one more at the end
    sent = figures(collector.requests[-1].resource_metrics[0])
    assert sent["phasewatt.steps",] == 7


def test_a_collector_that_is_not_there_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    pusher = Pusher(lambda: [run()], "http://127.0.0.1:9", every_s=0.02)
    pusher.close()
    assert capsys.readouterr().out.count("did not take") == 1
    with pytest.raises(ExportRefused):
        Pusher(list, "localhost:4318")
