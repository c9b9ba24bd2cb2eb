"""A finished run written by hand: known power, known steps, no recorder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from probe.model import Kind, Provenance, RunStatus, Source
from probe.ring.layout import Code, Record
from probe.store import files, layout
from probe.store.rollup import roll_up
from probe.store.runs import create_run
from probe.store.segments import EDGES, SAMPLES, SegmentWriter, seal_segment

NS = 1_000_000_000
PARTS = ((Code.DATA, 0.010), (Code.FORWARD, 0.030), (Code.BACKWARD, 0.050), (Code.OPTIMIZER, 0.010))


def energy_source(gpu: int, **more: Any) -> Source:
    """The counter of a card, in millijoules as NVML has it."""
    values: dict[str, Any] = {
        "id": f"nvml:GPU-{gpu}:energy",
        "device": f"gpu{gpu}",
        "uuid": f"GPU-{gpu}",
        "quantity": "energy",
        "unit": "J",
        "kind": Kind.COUNTER,
        "scale": 1e-3,
        "provenance": Provenance.MEASURED,
        "method": "counter",
        "in_total": True,
        "resolution_s": 0.1,
        "lag_s": 0.0,
        "delay_s": 0.0,
    }
    return Source(**values | more)


def gauge_source(gpu: int, quantity: str, unit: str, scale: float = 1.0, **more: Any) -> Source:
    """Any level of a card."""
    return Source(
        id=f"nvml:GPU-{gpu}:{quantity}",
        device=f"gpu{gpu}",
        uuid=f"GPU-{gpu}",
        quantity=quantity,
        unit=unit,
        kind=Kind.GAUGE,
        scale=scale,
        provenance=Provenance.MEASURED,
        method="nvml",
        **more,
    )


Samples = tuple[np.ndarray, np.ndarray]  # ns, raw values


def stored_run(
    directory: Path,
    sources: Sequence[tuple[Source, Samples]],
    seconds: float,
    *,
    run_id: str = "20260101-000000-made",
    name: str = "made",
    begin_ns: int = 1000 * NS,
    parts: int = 3,
    steps: int = 0,
    hot_end: bool = False,
    **fields: Any,
) -> Path:
    """Its directory. Samples lie in ``parts`` segments, sealed but for the last if ``hot_end``."""
    run = create_run(directory, run_id, shared=False, fields={"name": name})
    node = layout.node_dir(run)
    files.write_json(node / "sources.json", [dataclasses.asdict(source) for source, _ in sources])
    index = np.concatenate([np.full(len(t), i) for i, (_, (t, _)) in enumerate(sources)])
    time_ns = np.concatenate([t for _, (t, _) in sources])
    value = np.concatenate([v for _, (_, v) in sources])
    order = np.argsort(time_ns, kind="stable")
    writer = SegmentWriter(node, "samples-1", SAMPLES)
    pieces = np.array_split(order, parts)
    for number, piece in enumerate(pieces):
        for rows in np.array_split(piece, 4):
            if len(rows):
                writer.write(
                    {
                        "source": index[rows].astype(np.uint16),
                        "time_ns": time_ns[rows],
                        "value": value[rows].astype(np.float64),
                        "span_ns": np.full(len(rows), 20_000, np.int32),
                    }
                )
        if hot_end and number == len(pieces) - 1:
            break
        for closed in writer.close():
            if (sealed := seal_segment(closed)) is not None:
                roll_up(sealed, node)
    if steps:
        write_steps(run, begin_ns, steps)
    end_ns = begin_ns + int(seconds * NS)
    meta = json.loads((run / layout.RUN_FILE).read_text())
    ahead = meta["anchor"]["wall_ns"] - meta["anchor"]["monotonic_ns"]
    files.write_json(
        run / layout.RUN_FILE,
        meta
        | {
            "status": RunStatus.FINISHED,
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "steps": steps,
            "anchor": {"monotonic_ns": begin_ns, "wall_ns": begin_ns + ahead},
            **fields,
        },
    )
    return run


def write_steps(run: Path, begin_ns: int, steps: int, slower_from: int | None = None) -> None:
    """Edges of one rank: steps of 100 ms; from one on they take twice as long."""
    writer = SegmentWriter(layout.rank_dir(run, 0), "edges-main0-1", EDGES)
    rows: list[tuple[int, int, int, int]] = []
    at = begin_ns
    for step in range(steps):
        factor = 2 if slower_from is not None and step >= slower_from else 1
        for code, seconds in PARTS:
            rows.append((at, -1, int(Record.MARK), int(code)))
            at += int(seconds * factor * NS)
        rows.append((at, step, int(Record.STEP), 0))
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        columns = np.array(part, np.int64)
        first = 0 if part is rows[:half] or part[0] == rows[0] else half
        writer.write(
            {
                "time_ns": columns[:, 0],
                "payload": columns[:, 1],
                "kind": columns[:, 2].astype(np.uint8),
                "code": columns[:, 3].astype(np.uint16),
                "sequence": (first + np.arange(len(part))).astype(np.uint32),
            }
        )
        for closed in writer.close():
            if part[0] == rows[0]:
                seal_segment(closed)


def counter(begin_ns: int, seconds: float, watts: float, period_s: float = 0.1) -> Samples:
    """Reads of a millijoule counter under constant power: caught right after each update."""
    at = begin_ns + (np.arange(int(seconds / period_s) + 1) * period_s * NS).astype(np.int64)
    return at + 200_000, 5e6 + 1e3 * watts * (at - begin_ns) / NS


def level(begin_ns: int, seconds: float, value: float, every_s: float = 0.5) -> Samples:
    """Reads of a gauge that stands still."""
    at = begin_ns + (np.arange(int(seconds / every_s)) * every_s * NS).astype(np.int64)
    return at, np.full(len(at), value)
