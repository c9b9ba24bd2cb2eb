"""Reads back what experiment trackers hold, each with its own reader."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

Read = dict[str, list[tuple[int, float]]]  # name -> (step, value)
OVER_STEPS = ("energy/", "time/")
FINAL = ("energy_final/", "time_final/", "memory_final/", "activity_final/")


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
        figures = Read()
        for data in log_records(path.read_bytes()):
            record = messages.Record()
            record.ParseFromString(data)
            for item in record.history.item:
                name = item.nested_key[0] if item.nested_key else item.key
                if name.startswith(OVER_STEPS):
                    figures.setdefault(name, []).append(
                        (record.history.step.num, float(json.loads(item.value_json)))
                    )
            for item in record.summary.update:
                name = item.nested_key[0] if item.nested_key else item.key
                if name.startswith(FINAL):
                    figures[name] = [(0, float(json.loads(item.value_json)))]
        runs.append(figures)
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
        figures = Read()
        for row in rows:
            for name, value in row.items():
                if name.startswith((*OVER_STEPS, *FINAL)):
                    figures.setdefault(name, []).append((row["step"], value))
        runs.append(figures)
    return runs


READERS: dict[str, Callable[[Path], list[Read]]] = {
    "mlflow": of_mlflow,
    "tensorboard": of_tensorboard,
    "trackio": of_trackio,
    "wandb": of_wandb,
}
