"""Figures that trackers hold are the report's, for every stored run; rows add up to the spans."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from exporters import StoredRun, exporter_of
from probe.report.model import Report
from tests.fakes.stored_reports import LABELS, WITH_RATES, Open, bounds, opener, totals_of
from tests.fakes.tracker_readers import FINAL, READERS, Read

ROOT = Path(__file__).resolve().parents[2]
FEW = ("modelled-only", "one-gpu", "unmeasured")  # for trackers that take seconds


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Open:
    return opener(tmp_path_factory.mktemp("stored"))


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
    for held in report.memory:
        name = f"memory_final/{held.device}/{held.phase}_{held.quantity}"
        expected |= {f"{name}_peak_bytes": held.peak_bytes, f"{name}_mean_bytes": held.mean_bytes}
    for rate in report.rates:
        quantity = "cpu_cores" if rate.quantity == "cpu_time" else rate.quantity
        name = f"activity_final/{rate.device}/{rate.phase}_{quantity}"
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


def test_the_readme_names_what_trackers_get(stored: Open, tmp_path: Path) -> None:
    text = (ROOT / "exporters/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:energy|time|memory|activity)(?:_final)?/[^`*]+)`", text))
    assert len(named) >= 8
    written: set[str] = set()
    for label in (*FEW, WITH_RATES):
        exporter_of("tensorboard").export(stored(label), tmp_path / label)
        written |= set(*READERS["tensorboard"](tmp_path / label))
    for name in named:
        pattern = re.escape(name).replace("<device>", "[^/]+").replace("<phase>", ".+")
        assert any(re.fullmatch(pattern, key) for key in written), name
