"""`probe demo`: estimated joules beside the true ones, marked as simulated everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.energy.demo import of_run, summary
from dashboard.data.library import Library
from dashboard.pages._run_summary import head, strip
from exporters import exporter_of, exporters
from exporters._shared.live_runs import live_runs, runs_below
from exporters._shared.run import ExportRefused, StoredRun
from probe.report.build import run_report
from tests.fakes import processes
from tests.fakes.nvml import NvmlRig
from tests.fakes.processes import PLAIN

pytestmark = [pytest.mark.paced, pytest.mark.xdist_group("demo")]  # one fixture of a demo
SECONDS = "12"
RUNS = 20 if os.environ.get("PROVE") else 1
TRAINED = ("data", "forward", "backward", "optimizer")


def without_meters(folder: Path) -> dict[str, str]:
    """On a machine that has meters, too."""
    return {"CUDA_VISIBLE_DEVICES": "", "PROBE_POWERCAP_ROOT": str(folder / "no-powercap")}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo's folder and what it printed; beside its run one that has no simulated card."""
    folder = tmp_path_factory.mktemp("demo")
    done = processes.probe(folder, "demo", "--seconds", SECONDS, extra=without_meters(folder))
    assert done.returncode == 0, done.stderr
    real = processes.run(PLAIN, folder, "1.0", extra=without_meters(folder))
    assert real.returncode == 0, real.stderr
    return folder, done.stdout


def made_up(folder: Path) -> Path:
    (run,) = (folder / "runs").glob("*-demo-*")
    return run


def test_it_prints_estimates_beside_the_truth(demo: tuple[Path, str]) -> None:
    folder, said = demo
    lines = said.splitlines()
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)
    assert lines[0].startswith("SIMULATED:")
    rows = {line.split()[0]: line.split() for line in lines if line.startswith("  ")}
    assert set(TRAINED) <= set(rows)
    assert all(rows[phase][-1] in ("yes", "no", "refused") for phase in TRAINED)
    report = run_report(made_up(folder))
    for row in report.phases:
        if row.phase in ("forward", "backward") and row.power_w is not None:
            # Loose: the card's levels as the first lines print them, whatever twelve seconds tell.
            level = float(
                said.replace("\n", " ").partition(f"{row.phase} ")[2].split(" ")[0].strip(",")
            )
            assert 0.5 * level < row.power_w < 1.5 * level
    assert any("probe report" in line for line in lines)
    assert any("probe.watch(" in line for line in lines)


def test_run_sources_and_reports_say_that_they_are_simulated(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    run = made_up(folder)
    assert json.loads((run / "run.json").read_text())["simulated"] is True
    (stored,) = run.glob("node-*/sources.json")
    sources = json.loads(stored.read_text())
    energies = [source for source in sources if source.get("unit") in ("J", "W")]
    assert energies
    assert all(source["simulated"] and "SIMULATED" in source["uuid"] for source in energies)
    report = run_report(run)
    assert report.run.simulated
    assert all(source.simulated for source in report.sources)
    lines = [line for line in str(report).splitlines() if not line.startswith("  ")]  # none wrapped
    assert all(line.startswith("SIMULATED") for line in lines[:2])
    assert str(report.render("md")).splitlines()[1].startswith("### SIMULATED")
    assert "<h1>SIMULATED" in str(report.render("html"))
    assert json.loads(report.to_json())["run"]["simulated"] is True
    assert {row.split(",")[15] for row in str(report.render("csv")).splitlines()[1:]} == {
        "simulated"
    }


def test_it_is_not_compared_with_a_real_run(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    for command in ("compare", "objective"):
        done = processes.probe(folder, command, "demo", "plain")
        assert done.returncode == 1, done.stdout
        assert "simulated card" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_no_list_counts_its_joules(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    listed = processes.probe(folder, "ls").stdout
    (line,) = [line for line in listed.splitlines() if "-demo-" in line]
    assert line.endswith("SIMULATED")
    rows = json.loads(processes.probe(folder, "ls", "--json").stdout)
    (row,) = [row for row in rows if row["name"] == "demo"]
    assert row["simulated"]
    assert row["energy_j"] is row["modelled_energy_j"] is row["power"] is None
    shown = {row["name"]: row for row in Library(folder / "runs").rows()}
    assert shown["demo"]["energy_j"] is None


def test_the_dashboard_says_that_it_is_simulated(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    report = run_report(made_up(folder))
    assert "SIMULATED: " in str(head(report))
    assert "energy, SIMULATED" in str(strip(report))


@pytest.mark.parametrize("name", sorted(exporters()))
def test_no_exporter_takes_it(name: str, demo: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = demo
    run = StoredRun(made_up(folder))
    options = {
        "sci": {"embodied_g": "1"},
        "pushgateway": {"url": "http://127.0.0.1:9"},
        "otlp": {"endpoint": "http://127.0.0.1:9"},
    }.get(name)
    with pytest.raises(ExportRefused, match="simulated"):
        exporter_of(name, options).export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_endpoint_serves_it(demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = demo
    monkeypatch.setattr("exporters._shared.live_runs.LINGER_S", 1e6)
    served = [run.name for run in live_runs(runs_below(folder / "runs"))()]
    assert served == ["plain"]


def test_a_real_meter_is_measured_instead(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, power_w=250.0)
    done = processes.probe(tmp_path, "demo", "--seconds", "6", extra=rig.env())
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" not in done.stdout
    assert "gpu0 (counter)" in done.stdout
    run = processes.only_run(tmp_path)
    assert "simulated" not in json.loads((run / "run.json").read_text())
    report = run_report(run)
    assert not report.run.simulated
    assert report.total.energy_j == pytest.approx(250.0 * report.run.duration_s, rel=0.1)


def test_it_is_refused_inside_another_run(tmp_path: Path) -> None:
    done = processes.probe(tmp_path, "demo", extra={"PROBE_RUN": str(tmp_path)})
    assert done.returncode == 1
    assert "start it alone" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from probe.cli.main import main; main(['demo'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=processes.environment(tmp_path / "runs"),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "probe: torch is not installed, and the demo trains a model: pip install torch"
    ]


@pytest.mark.full
@pytest.mark.timeout(60 * RUNS + 120)
def test_forward_and_backward_are_found_and_hold_the_truth() -> None:
    runs = [of_run(40.0) for _ in range(RUNS)]
    figures = summary(runs)
    if RUNS > 1:  # one run may miss: an interval of 95 % does
        assert figures["ok"], figures
    for run in runs:
        for phase in ("forward", "backward"):
            row = run["phases"][phase]
            assert row["energy_j"] == pytest.approx(row["truth_j"], rel=0.15), run
