"""Experiment trackers, each read back with its own reader: the report's figures, and once only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from exporters import ExportRefused, StoredRun, exporter_of
from tests.fakes.exported_runs import HOSTILE_STEPPED, STEPPED, stored_run
from tests.fakes.recordings import RecordedRuns, needs
from tests.fakes.selection import one_in
from tests.fakes.tracker_readers import READERS

from .test_exporters import TRACKERS

pytestmark = needs(STEPPED, HOSTILE_STEPPED)


@pytest.fixture(scope="module")
def trained(recorded_runs: RecordedRuns) -> StoredRun:
    return stored_run(recorded_runs[STEPPED])


@pytest.fixture(scope="module")
def hostile(recorded_runs: RecordedRuns) -> StoredRun:
    return stored_run(recorded_runs[HOSTILE_STEPPED])


@pytest.mark.parametrize("name", TRACKERS)
def test_figures_are_the_reports_and_written_once(
    name: str, trained: StoredRun, tmp_path: Path
) -> None:
    output = tmp_path / "new" / "place"
    for _ in range(2):  # the second replaces the first
        said = exporter_of(name).export(trained, output)
        assert "\n" not in said and "rows over the steps and" in said
    (read,) = READERS[name](output)
    total, run = trained.report.total, trained.report.run
    near: dict[str, Any] = {"rel": 1e-6}  # TensorBoard keeps 32 bits

    def final(key: str) -> float:
        ((_, value),) = read[f"energy_final/{key}"]
        return value

    assert final("total_j") == pytest.approx(total.energy_j, **near)
    assert [final("total_j_low"), final("total_j_high")] == pytest.approx(
        total.energy_j_interval, **near
    )
    assert final("co2e_g") == pytest.approx(total.co2e_g, **near)
    rows = [r for r in trained.report.phases if r.energy_j_interval]
    assert rows
    for row in rows:
        key = f"{row.device}/{row.phase}_j"
        assert final(key) == pytest.approx(row.energy_j, **near)
        assert [final(f"{key}_low"), final(f"{key}_high")] == pytest.approx(
            row.energy_j_interval, **near
        )
    steps = [step for step, _ in read["energy/total_j"]]
    assert len(steps) >= 5 and steps == sorted(set(steps)) and steps[-1] <= run.steps
    grown = [value for _, value in read["energy/total_j"]]
    assert grown == sorted(grown) and grown[-1] <= total.energy_j
    watts = [value for _, value in read["energy/power_w"]]
    assert watts == pytest.approx([400.0] * len(watts), rel=0.15)
    spent = [value for _, value in read["energy/j_per_step"]]
    per_sample = [value for _, value in read["energy/j_per_sample"]]
    assert per_sample == pytest.approx([value / 8 for value in spent], rel=0.3)


@pytest.mark.parametrize("name", one_in(2, TRACKERS))
def test_hostile_names_stay_inside(name: str, hostile: StoredRun, tmp_path: Path) -> None:
    output = tmp_path / "place"
    exporter_of(name).export(hostile, output)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    (read,) = READERS[name](output)
    assert read["energy_final/total_j"][0][1] == pytest.approx(
        hostile.report.total.energy_j, rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("mlflow", "mlflow"),
        ("wandb", "wandb"),
        ("tensorboard", "tensorboard.compat.proto.event_pb2"),
    ],
)
def test_a_tracker_that_is_not_installed_is_named(
    name: str, module: str, trained: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ExportRefused, match=f"pip install {name}"):
        exporter_of(name).export(trained, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_wandb_run_of_the_callers_goes_on(trained: StoredRun, tmp_path: Path) -> None:
    import wandb

    settings = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True)
    callers = wandb.init(mode="offline", dir=tmp_path, project="callers", settings=settings)
    try:
        exporter_of("wandb").export(trained, tmp_path / "exported")
        assert wandb.run is callers
        callers.log({"loss": 1.0})
        assert callers.summary["loss"] == 1.0 and "energy_final" not in str(callers.summary)
    finally:
        callers.finish()
        wandb.teardown()
    (read,) = READERS["wandb"](tmp_path / "exported")
    assert read["energy_final/total_j"][0][1] == pytest.approx(
        trained.report.total.energy_j, rel=1e-6
    )
