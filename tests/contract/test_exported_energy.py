"""Energy and CO2e in others' formats are the report's; unknown is empty, a model is named."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from exporters import ExportRefused, exporter_of
from tests.fakes.stored_reports import (
    J_PER_KWH,
    LABELS,
    Open,
    all_co2e_g,
    all_energy_j,
    is_of,
    opener,
    sum_or_none,
)

UNKNOWN_TO_US = (  # no meter of ours says these
    "cpu_utilization_percent",
    "gpu_utilization_percent",
    "ram_utilization_percent",
    "ram_used_gb",
    "water_consumed",
    "wue",
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Open:
    return opener(tmp_path_factory.mktemp("stored"))


def number(cell: str) -> float | None:
    return float(cell) if cell else None


@pytest.mark.parametrize("label", LABELS)
def test_codecarbon(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    report = run.report
    if all_energy_j(report) is None:
        with pytest.raises(ExportRefused, match="has no energy"):
            exporter_of("codecarbon").export(run, tmp_path / "x")
        assert not (tmp_path / "x").exists()
        return
    exporter_of("codecarbon").export(run, tmp_path / "x")
    with open(tmp_path / "x", newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert {row[name] for name in UNKNOWN_TO_US} == {""}
    gpu_j, cpu_j, ram_j = (
        sum_or_none(
            source.energy_j
            for source in report.sources
            if is_of(source, *kinds) and (source.in_total or source.provenance == "modelled")
        )
        for kinds in (("gpu",), ("cpu", "psys"), ("dram", "ram"))
    )
    co2e_g, seconds = all_co2e_g(report), report.run.duration_s
    assert {name: number(row[name]) for name in ("duration", "emissions", "energy_consumed")} == {
        "duration": seconds,
        "emissions": None if co2e_g is None else pytest.approx(co2e_g / 1e3),
        "energy_consumed": pytest.approx((all_energy_j(report) or 0.0) / J_PER_KWH),
    }
    assert (row["emissions_rate"] == "") == (co2e_g is None)
    for name, joules in (("gpu", gpu_j), ("cpu", cpu_j), ("ram", ram_j)):
        energy_kwh, power_w = number(row[f"{name}_energy"]), number(row[f"{name}_power"])
        if joules is None:
            assert energy_kwh is None and power_w is None
        else:
            assert energy_kwh == pytest.approx(joules / J_PER_KWH)
            assert power_w == pytest.approx(joules / seconds)
    gpus = sum(is_of(source, "gpu") and source.in_total for source in report.sources)
    assert number(row["gpu_count"]) == (gpus or None)


@pytest.mark.parametrize("label", LABELS)
def test_boamps(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    report = run.report
    energy_j = all_energy_j(report)
    if energy_j is None:
        with pytest.raises(ExportRefused, match="has no energy"):
            exporter_of("boamps").export(run, tmp_path / "x")
        return
    exporter_of("boamps").export(run, tmp_path / "x")
    content = json.loads((tmp_path / "x").read_text())
    (measure,) = content["measures"]
    assert measure["powerConsumption"] == pytest.approx(energy_j / J_PER_KWH)
    assert measure["measurementDuration"] == report.run.duration_s
    assert not [key for key in measure if "tilization" in key]
    assert ("power model" in measure["measurementMethod"]) == (report.total.energy_j is None)
    share = (report.total.energy_j or 0.0) / energy_j
    assert content["quality"] == ("high" if share >= 0.9 else "medium" if share >= 0.5 else "low")
    for key, kinds in (("cpuTrackingMode", ("cpu", "psys")), ("gpuTrackingMode", ("gpu",))):
        rows = [r for r in report.sources if is_of(r, *kinds) and r.energy_j is not None]
        sensors = {row.source.partition(":")[0] for row in rows if row.in_total}
        modelled = {"power model" for row in rows if row.provenance == "modelled"}
        assert measure.get(key) == (", ".join(sensors or modelled) or None)


@pytest.mark.parametrize("label", LABELS)
def test_model_card(label: str, stored: Open, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    run = stored(label)
    report = run.report
    if all_co2e_g(report) is None:
        with pytest.raises(ExportRefused, match="has no CO2e"):
            exporter_of("huggingface").export(run, tmp_path / "x")
        return
    exporter_of("huggingface").export(run, tmp_path / "x")
    card = ModelCard.load(tmp_path / "x").data.to_dict()["co2_eq_emissions"]
    assert card["emissions"] == pytest.approx(all_co2e_g(report))
    assert "training_type" not in card  # nobody said which
    assert ("nothing was measured" in card["source"]) == (report.total.energy_j is None)
    assert ("all of the energy measured" in card["source"]) == (
        report.total.modelled_energy_j is None
    )


@pytest.mark.parametrize("label", LABELS)
def test_carbon_intensity_of_software(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    report = run.report
    exporter = exporter_of("sci", {"embodied_g": "120", "per": "10"})
    units = {"samples", "tokens"} & set(report.values) or report.run.steps
    if all_energy_j(report) is None or report.carbon is None or not units:
        with pytest.raises(ExportRefused, match="has no"):
            exporter.export(run, tmp_path / "x")
        return
    exporter.export(run, tmp_path / "x")
    content = json.loads((tmp_path / "x").read_text())
    total = report.total
    for key, joules in (("measured", total.energy_j), ("modelled", total.modelled_energy_j)):
        energy_kwh = None if joules is None else pytest.approx(joules / J_PER_KWH)
        assert content["E"][key] == energy_kwh
    assert content["E"]["value"] * content["I"]["value"] == pytest.approx(all_co2e_g(report))
    number_of_units = content["R"]["value"]
    logged = report.values.get("samples")
    expected_units = logged.sum if logged else report.run.steps
    assert number_of_units == pytest.approx((expected_units or 0.0) / 10)
    grams = (all_co2e_g(report) or 0.0) + 120
    assert content["sci"] == pytest.approx(grams / number_of_units)


@pytest.mark.parametrize("label", LABELS)
def test_mllog_readings(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    report = run.report
    expected = [
        (row.device, watts)
        for row in report.power
        if row.provenance == "measured"
        for watts in row.power_w
        if watts is not None
    ]
    if not expected:
        with pytest.raises(ExportRefused, match="no measured power"):
            exporter_of("mllog").export(run, tmp_path / "x")
        return
    exporter_of("mllog").export(run, tmp_path / "x")
    lines = [
        json.loads(line.removeprefix(":::MLLOG "))
        for line in (tmp_path / "x").read_text().splitlines()
    ]
    assert [
        (line["metadata"]["device"], line["value"])
        for line in lines
        if line["key"] == "power_reading"
    ] == expected
