"""Experiment trackers, each read back with its own reader: the report's figures, and once only."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporters import ExportRefused, StoredRun, exporter_of
from tests.fakes.exported_runs import HOSTILE_STEPPED, STEPPED, stored_run
from tests.fakes.recordings import RecordedRuns, needs

from .test_exporters import TRACKERS

Read = dict[str, list[tuple[int, float]]]  # name -> (step, value)


pytestmark = needs(STEPPED, HOSTILE_STEPPED)


@pytest.fixture(scope="module")
def trained(recorded_runs: RecordedRuns) -> StoredRun:
    return stored_run(recorded_runs[STEPPED])


@pytest.fixture(scope="module")
def hostile(recorded_runs: RecordedRuns) -> StoredRun:
    return stored_run(recorded_runs[HOSTILE_STEPPED])


def of_tensorboard(output: Path) -> list[Read]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(output), size_guidance={"scalars": 0})
    events.Reload()
    return [
        {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    ]


def log_records(content: bytes) -> Iterator[bytes]:
    """Of LevelDB's log format, in which W&B keeps a run: blocks of 32 kB, seven bytes before each
    piece (checksum, length, type: whole, first, middle, last).
    """
    at, whole = 7, b""  # W&B's own header
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


def of_wandb(output: Path) -> list[Read]:
    from wandb.proto import wandb_internal_pb2 as messages

    runs = []
    for path in sorted(output.glob("wandb/offline-run-*/*.wandb")):
        found = Read()
        for data in log_records(path.read_bytes()):
            record = messages.Record()
            record.ParseFromString(data)
            for item in record.history.item:
                name = item.nested_key[0] if item.nested_key else item.key
                if name.startswith("energy/"):
                    found.setdefault(name, []).append(
                        (record.history.step.num, float(json.loads(item.value_json)))
                    )
            for item in record.summary.update:
                name = item.nested_key[0] if item.nested_key else item.key
                if name.startswith("energy_final/"):
                    found[name] = [(0, float(json.loads(item.value_json)))]
        runs.append(found)
    return runs


def of_mlflow(output: Path) -> list[Read]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{output}")
    experiment = client.get_experiment_by_name("phasewatt")
    return [
        {
            name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
        }
        for run in client.search_runs([experiment.experiment_id])
    ]


def of_trackio(output: Path) -> list[Read]:
    script = """
import json
from trackio import SQLiteStorage
print(json.dumps([SQLiteStorage.get_logs("phasewatt", run)
                  for run in SQLiteStorage.get_runs("phasewatt")]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TRACKIO_DIR": str(output)},
    )
    runs = []
    for rows in json.loads(done.stdout):
        found = Read()
        for row in rows:
            for name, value in row.items():
                if name.startswith("energy"):
                    found.setdefault(name, []).append((row["step"], value))
        runs.append(found)
    return runs


READERS: dict[str, Callable[[Path], list[Read]]] = {
    "mlflow": of_mlflow,
    "tensorboard": of_tensorboard,
    "trackio": of_trackio,
    "wandb": of_wandb,
}


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
        key = f"{row['device']}/{row['phase']}_j"
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


@pytest.mark.parametrize("name", TRACKERS)
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
