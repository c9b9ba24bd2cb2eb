"""A week of 64 GPUs, as a store: energy and utilisation of each, read every ten seconds.

Used by dashboard_speed.py. What a chart of a week reads are rollups of a minute, of which there are
as many as if the meters had been read ten times a second.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from common import ROOT

sys.path.insert(0, str(ROOT))

from probe.clock import MACHINE_CLOCK
from probe.model import Kind, Provenance, RunStatus, Sample, Source
from probe.recorder.pipeline.storage import StorageStage
from probe.recorder.pipeline.summary import SummaryStage
from probe.recorder.pipeline.timelines import Timelines
from probe.recorder.sealer import Sealer
from probe.store import files, layout
from probe.store.runs import create_run, new_run_id

NS = 1_000_000_000
GPUS, SECONDS, EVERY_S, PORTION = 64, 7 * 86400, 10, 360  # readings at a time


def record(folder: Path) -> Path:
    """A finished run."""
    run = create_run(folder, new_run_id("week", time.time()), shared=False, fields={"name": "week"})
    begin_ns = 1000 * NS
    rng = np.random.default_rng(0)
    sources = [
        (
            _source(gpu, "energy", "J", Kind.COUNTER),
            _source(gpu, "utilization", "ratio", Kind.GAUGE),
        )
        for gpu in range(GPUS)
    ]
    samples, sealer, summaries = (
        StorageStage(run, 1, MACHINE_CLOCK),
        Sealer(),
        SummaryStage(run, begin_ns),
    )
    flat = [one for both in sources for one in both]
    samples.open(flat)
    summaries.open(flat)
    joules = np.zeros(GPUS)
    for first in range(0, SECONDS // EVERY_S, PORTION):
        at_ns = begin_ns + (first + np.arange(PORTION)) * EVERY_S * NS
        for gpu, (energy, busy) in enumerate(sources):
            watts = rng.normal(500 + 2 * gpu, 40, PORTION).clip(70, 700)
            told = joules[gpu] + np.cumsum(watts) * EVERY_S
            joules[gpu] = told[-1]
            for source, values in ((energy, told), (busy, rng.random(PORTION))):
                read = [
                    Sample(source.id, at, value, 20_000)
                    for at, value in zip(at_ns.tolist(), values.tolist(), strict=True)
                ]
                samples.readings(read)
                summaries.readings(read)
        samples.flush()
        summaries.advance([])
        sealer.take(samples.sync())
    sealer.take(samples.close())
    sealer.finish()
    summaries.save(begin_ns + SECONDS * NS, [], [], Timelines(), followed=[])
    meta = files.read_json(run / layout.RUN_FILE) or {}
    files.write_json(
        run / layout.RUN_FILE,
        meta
        | {"status": RunStatus.FINISHED, "begin_ns": begin_ns, "end_ns": begin_ns + SECONDS * NS},
    )
    return run


def _source(gpu: int, quantity: str, unit: str, kind: Kind) -> Source:
    uuid = f"GPU-{gpu:04d}"
    return Source(
        id=f"nvml:{uuid}:{quantity}",
        quantity=quantity,
        unit=unit,
        kind=kind,
        provenance=Provenance.MEASURED,
        device=f"gpu{gpu}",
        uuid=uuid,
        model="NVIDIA H200",
        method="counter",
        in_total=quantity == "energy",
    )
