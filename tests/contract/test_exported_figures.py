"""Every figure that an exporter writes of a stored run is the report's; unknown stays unknown.

Each file is read back by its format's own reader, where there is one, and compared as a whole: a
figure that is missing fails as one that is wrong, and so does one that the report does not have.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from prometheus_client.parser import text_string_to_metric_families

from exporters import ExportRefused, StoredRun, exporter_of
from probe.report.model import PhaseRow, Report, SourceRow
from probe.store.trainings import single
from tests.fakes.otlp_collector import figures
from tests.fakes.reports import rate_row
from tests.fakes.tracker_readers import FINAL, READERS, Read
from tests.fixtures.archives import STORED_RUNS, unpack
from tests.fixtures.recordings import RUNS

WITH_RATES = "with-rates"  # no stored run is long enough for rates, or has memory per phase
LABELS = sorted({*RUNS, WITH_RATES} - {"ablation"})
FEW = ("modelled-only", "one-gpu", "unmeasured")  # for trackers that take seconds
J_PER_KWH = 3.6e6
UNKNOWN_TO_US = (  # no meter of ours says these
    "cpu_utilization_percent",
    "gpu_utilization_percent",
    "ram_utilization_percent",
    "ram_used_gb",
    "water_consumed",
    "wue",
)
Open = Callable[[str], StoredRun]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Open:
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED_RUNS, folder)
    opened: dict[str, StoredRun] = {}

    def open_(label: str) -> StoredRun:
        if label == WITH_RATES:
            return with_rates(open_("one-gpu"))
        if label not in opened:
            (path,) = (folder / "runs").glob(f"*-[0-9][0-9][0-9][0-9][0-9][0-9]-{label}")
            opened[label] = StoredRun(single(path))
        return opened[label]

    return open_


def with_rates(run: StoredRun) -> StoredRun:
    """The run, and in its report rates and memory of some phases as if they had been recorded."""
    again = StoredRun(run.path)
    forward, *others = run.report.phases
    again.report = replace(
        run.report,
        phases=(replace(forward, memory_peak_bytes=3e9, memory_mean_bytes=2e9), *others),
        rates=(
            rate_row("sm_activity", "forward", 2.0, 0.75),
            rate_row("tensor_activity", "forward", 2.0, 0.25),
            replace(rate_row("sm_activity", "backward", 3.0, 0.5), value=None, interval=None),
        ),
    )
    return again


def bounds(
    best: float | None, interval: tuple[float, float] | None, names: tuple[str, str, str]
) -> dict[str, float]:
    """An estimate and the ends of its interval under three names; what is None is left out."""
    values = (best, *(interval or (None, None)))
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def memory_of(row: PhaseRow, name: str) -> dict[str, float]:
    """Peak and mean under names with these words in them; what is None is left out."""
    values = {"peak": row.memory_peak_bytes, "mean": row.memory_mean_bytes}
    return {name.format(word): value for word, value in values.items() if value is not None}


def exactly(expected: dict[str, float]) -> object:
    return pytest.approx(expected, rel=1e-12, abs=0.0)


def is_of(row: SourceRow, *kinds: str) -> bool:
    """Whether a device's name, without its node and number, is one of some words."""
    return re.sub(r"\d+$", "", row.device.rpartition("/")[2]) in kinds


def sum_or_none(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def all_energy_j(report: Report) -> float | None:
    return sum_or_none((report.total.energy_j, report.total.modelled_energy_j))


def all_co2e_g(report: Report) -> float | None:
    return sum_or_none((report.total.co2e_g, report.total.modelled_co2e_g))


# -- Prometheus and OTLP -------------------------------------------------------------------------


def totals_of(report: Report, names: tuple[str, ...]) -> dict[str, float]:
    total = report.total
    values = (total.co2e_g, total.modelled_energy_j, total.modelled_co2e_g, total.coverage)
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


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
        memory = memory_of(row, "phasewatt_phase_memory_{}_bytes")
        expected |= {f"{name}|{at}": value for name, value in memory.items()}
        if row.provenance != "modelled":
            estimate = bounds(row.energy_j, row.energy_j_interval, three)
            name = "phasewatt_phase_energy_estimate_joules"
            expected |= {f"{name}|{at}{bound}": joules for bound, joules in estimate.items()}
        elif row.energy_j is not None:
            expected[f"phasewatt_phase_modelled_energy_joules|{at}"] = row.energy_j
    for rate in report.rates:
        at = f"{rate.quantity}|{rate.device}|{rate.phase}|"
        activity = bounds(rate.value, rate.interval, three)
        expected |= {f"phasewatt_phase_activity_ratio|{at}{b}": v for b, v in activity.items()}
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
        memory = memory_of(row, "phasewatt.phase.memory_{}")
        expected.update({f"{name}|{at}": value for name, value in memory.items()})
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
        expected.update({f"phasewatt.phase.activity{at}{b}": v for b, v in activity.items()})
    assert written == exactly(expected)


# -- reports of energy and carbon ----------------------------------------------------------------


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


# -- experiment trackers -------------------------------------------------------------------------


def final_figures(report: Report) -> dict[str, float]:
    total = report.total
    three = ("total_j", "total_j_low", "total_j_high")
    energies = bounds(total.energy_j, total.energy_j_interval, three)
    energies |= totals_of(report, ("co2e_g", "modelled_j", "modelled_co2e_g", "coverage"))
    times = {"total_s": report.run.duration_s}
    if report.run.step_s is not None:
        times["step_s"] = report.run.step_s
    for row in report.phases:
        times[f"{row.device}/{row.phase}_s"] = row.time_s
        unit = "modelled_j" if row.provenance == "modelled" else "j"
        name = f"{row.device}/{row.phase}_{unit}"
        energies |= bounds(
            row.energy_j, row.energy_j_interval, (name, f"{name}_low", f"{name}_high")
        )
    expected = {f"energy_final/{name}": value for name, value in energies.items()}
    for row in report.phases:
        expected |= memory_of(row, f"memory_final/{row.device}/{row.phase}_{{}}_bytes")
    for rate in report.rates:
        name = f"activity_final/{rate.device}/{rate.phase}_{rate.quantity}"
        expected |= bounds(rate.value, rate.interval, (name, f"{name}_low", f"{name}_high"))
    return expected | {f"time_final/{name}": value for name, value in times.items()}


def plain(name: str) -> str:
    """A name as all trackers accept it."""
    return re.sub(r"[^A-Za-z0-9_.\-/ ]+", "_", name)


def check_tracker(read: Read, run: StoredRun) -> None:
    """Figures are kept as 32 bits by some trackers."""
    report = run.report
    expected = {plain(name): value for name, value in final_figures(report).items()}
    written = {
        plain(name): values[-1][1] for name, values in read.items() if name.startswith(FINAL)
    }
    assert written == pytest.approx(expected, rel=1e-6, abs=1e-30)
    assert all(math.isfinite(value) for values in read.values() for _, value in values)
    over_steps = {name for name in read if not name.startswith(FINAL)}
    measured = {name for name in over_steps if re.match("energy/(?!modelled_)", name)}
    modelled = {name for name in over_steps if name.startswith("energy/modelled_")}
    if report.total.energy_j is None:
        assert not measured
    if report.total.modelled_energy_j is None:
        assert not modelled
    for name, joules in (
        ("energy/total_j", report.total.energy_j),
        ("energy/modelled_total_j", report.total.modelled_energy_j),
    ):
        grown = [value for _, value in read.get(name, [])]
        assert grown == sorted(grown)
        assert not grown or grown[-1] <= (joules or 0.0) * (1 + 1e-6)


@pytest.mark.parametrize("label", LABELS)
def test_tensorboard(label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    exporter_of("tensorboard").export(run, tmp_path / "x")
    (read,) = READERS["tensorboard"](tmp_path / "x")
    check_tracker(read, run)


@pytest.mark.parametrize("label", FEW)
@pytest.mark.parametrize("name", ["mlflow", "trackio", "wandb"])
def test_other_trackers(name: str, label: str, stored: Open, tmp_path: Path) -> None:
    run = stored(label)
    exporter_of(name).export(run, tmp_path / "x")
    (read,) = READERS[name](tmp_path / "x")
    check_tracker(read, run)
    assert len(read["time/s_per_step"]) >= 2


def test_without_a_meter_every_step_has_its_time(stored: Open, tmp_path: Path) -> None:
    """The run's steps were written by hand: 10, 30, 50 and 10 ms."""
    exporter_of("tensorboard").export(stored("unmeasured"), tmp_path / "x")
    (read,) = READERS["tensorboard"](tmp_path / "x")
    assert {name for name in read if not name.startswith(FINAL)} == {
        f"time/{name}s_per_step" for name in ("", "data_", "forward_", "backward_", "optimizer_")
    }
    for phase, milliseconds in (("data", 10), ("forward", 30), ("backward", 50), ("optimizer", 10)):
        rows = read[f"time/{phase}_s_per_step"]
        assert [step for step, _ in rows] == list(range(1, 61))
        assert [value for _, value in rows] == pytest.approx([milliseconds / 1e3] * 60, rel=1e-6)


@pytest.mark.parametrize("label", ["by-hand", "modelled-only", "one-gpu", "restarted"])
def test_times_over_the_steps_are_those_of_the_spans(
    label: str, stored: Open, tmp_path: Path
) -> None:
    import pandas

    run = stored(label)
    exporter_of("tensorboard").export(run, tmp_path / "x")
    exporter_of("parquet", {"table": "spans"}).export(run, tmp_path / "spans")
    (read,) = READERS["tensorboard"](tmp_path / "x")
    spans = pandas.read_parquet(tmp_path / "spans")
    spans = spans[(spans["rank"] == spans["rank"].min()) & (spans.clock == "host")]
    step_ends = run.reader.steps_ns(int(spans["rank"].min())) + run.ahead_ns
    rows = read["time/s_per_step"]
    last = int(step_ends[rows[-1][0] - 1])
    begin_ns, end_ns = (spans[name].astype("int64").clip(upper=last) for name in ("begin", "end"))
    expected = ((end_ns - begin_ns) / 1e9).groupby(spans.phase, observed=True).sum()
    for phase, seconds in expected.items():
        written, before = 0.0, 0
        for step, value in read.get(f"time/{plain(str(phase))}_s_per_step", []):
            written, before = written + value * (step - before), step
        assert written == pytest.approx(seconds, rel=1e-5, abs=1e-9), phase
