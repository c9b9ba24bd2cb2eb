"""Every figure in Prometheus' and OTLP's formats is the report's; unknown has no series.

The whole content is compared: a figure that is missing fails as a wrong one does, and so does one
that the report does not have.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from prometheus_client.parser import text_string_to_metric_families

from exporters import exporter_of
from tests.fakes.otlp_collector import figures
from tests.fakes.stored_reports import LABELS, Open, bounds, exactly, opener, totals_of


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Open:
    return opener(tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("label", LABELS)
def test_prometheus(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    report = run.report
    exporter_of("prometheus").export(run, tmp_path / "x")
    written: dict[str, float] = {}
    for family in text_string_to_metric_families((tmp_path / "x").read_text(encoding="utf-8")):
        for sample in family.samples:
            if sample.name == "phasewatt_run_info":
                assert sample.labels["status"] == report.run.status
                continue
            assert sample.labels["run"] == report.run.id
            names = ("device", "phase", "bound")
            first = sample.labels.get("source") or sample.labels.get("quantity", "")
            keys = [first, *(sample.labels.get(name, "") for name in names)]
            if sample.name != "phasewatt_phase_status":
                written["|".join([sample.name, *keys])] = sample.value
    expected = {
        "phasewatt_run_duration_seconds||||": report.run.duration_s,
        "phasewatt_run_steps||||": report.run.steps,
    }
    names = ("co2e_grams", "modelled_energy_joules", "modelled_co2e_grams", "coverage_ratio")
    expected |= totals_of(report, tuple(f"phasewatt_run_{name}||||" for name in names))
    three = ("best", "lower", "upper")
    total = bounds(report.total.energy_j, report.total.energy_j_interval, three)
    expected |= {f"phasewatt_run_energy_joules||||{bound}": j for bound, j in total.items()}
    for source in report.sources:
        if source.energy_j is not None:
            modelled = "modelled_" if source.provenance == "modelled" else ""
            key = f"phasewatt_source_{modelled}energy_joules|{source.source}|{source.device}||"
            expected[key] = source.energy_j
    for row in report.phases:
        at = f"|{row.device}|{row.phase}|"
        expected[f"phasewatt_phase_duration_seconds|{at}"] = row.time_s
        if row.provenance != "modelled":
            estimate = bounds(row.energy_j, row.energy_j_interval, three)
            name = "phasewatt_phase_energy_estimate_joules"
            expected |= {f"{name}|{at}{bound}": joules for bound, joules in estimate.items()}
        elif row.energy_j is not None:
            expected[f"phasewatt_phase_modelled_energy_joules|{at}"] = row.energy_j
    for rate in report.rates:
        at = f"{rate.quantity}|{rate.device}|{rate.phase}|"
        activity = bounds(rate.value, rate.interval, three)
        name = "cpu_cores" if rate.quantity == "cpu_time" else "activity_ratio"
        expected |= {f"phasewatt_phase_{name}|{at}{b}": v for b, v in activity.items()}
    for held in report.memory:
        at = f"{held.quantity}|{held.device}|{held.phase}|"
        expected[f"phasewatt_phase_memory_peak_bytes|{at}"] = held.peak_bytes
        expected[f"phasewatt_phase_memory_mean_bytes|{at}"] = held.mean_bytes
    assert written == exactly(expected)


@pytest.mark.parametrize("label", LABELS)
def test_otlp(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    report = run.report
    exporter_of("otlp").export(run, tmp_path / "x")
    data = json_format.ParseDict(json.loads((tmp_path / "x").read_text()), MetricsData())
    written: Counter[str] = Counter()
    for (name, *pairs), value in figures(data.resource_metrics[0]).items():
        at = dict(pairs)
        quantity = at.get("phasewatt.quantity", "")
        keys = (at.get("hw.name", ""), at.get("phasewatt.phase", ""), at.get("phasewatt.bound", ""))
        written["|".join([name + quantity, *keys])] += value  # meters of the same device add up
    expected: Counter[str] = Counter(
        {
            "phasewatt.run.duration|||": report.run.duration_s,
            "phasewatt.run.steps|||": report.run.steps,
        }
    )
    names = ("co2e", "modelled_energy", "modelled_co2e", "coverage")
    expected.update(totals_of(report, tuple(f"phasewatt.run.{name}|||" for name in names)))
    three = ("best", "lower", "upper")
    total = bounds(report.total.energy_j, report.total.energy_j_interval, three)
    expected.update({f"phasewatt.run.energy|||{bound}": j for bound, j in total.items()})
    for source in report.sources:
        if source.energy_j is not None and (source.in_total or source.provenance == "modelled"):
            name = "hw.energy" if source.in_total else "phasewatt.modelled.energy"
            expected[f"{name}|{source.device}||"] += source.energy_j
    for row in report.phases:
        at = f"{row.device}|{row.phase}|"
        expected[f"phasewatt.phase.duration|{at}"] = row.time_s
        if row.provenance != "modelled":
            estimate = bounds(row.energy_j, row.energy_j_interval, three)
            expected.update(
                {f"phasewatt.phase.energy_estimate|{at}{bound}": j for bound, j in estimate.items()}
            )
        elif row.energy_j is not None:
            expected[f"phasewatt.phase.modelled_energy|{at}"] = row.energy_j
    for rate in report.rates:
        at = f"{rate.quantity}|{rate.device}|{rate.phase}|"
        activity = bounds(rate.value, rate.interval, three)
        name = "cpu_cores" if rate.quantity == "cpu_time" else "activity"
        expected.update({f"phasewatt.phase.{name}{at}{b}": v for b, v in activity.items()})
    for held in report.memory:
        at = f"{held.quantity}|{held.device}|{held.phase}|"
        expected[f"phasewatt.phase.memory_peak{at}"] = held.peak_bytes
        expected[f"phasewatt.phase.memory_mean{at}"] = held.mean_bytes
    assert written == exactly(expected)
