"""A week of 64 GPUs, as a store: energy and utilisation of each, read every ten seconds.

Used by the dashboard's benchmarks. What a chart of a week reads are rollups of a minute, of which
there are as many as if the meters had been read ten times a second.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from probe.clock import MACHINE_CLOCK
from probe.model import Sample
from probe.recorder.pipeline.storage import StorageStage
from probe.recorder.pipeline.summary import SummaryStage
from probe.recorder.pipeline.timelines import Timelines
from probe.recorder.sealer import Sealer
from probe.store.runs import create_run, new_run_id
from tests.fakes.stored_run import NS, energy_source, gauge_source

from .day import finish

GPUS, SECONDS, EVERY_S, PORTION = 64, 7 * 86400, 10, 360  # readings at a time


def record(folder: Path) -> Path:
    """A finished run."""
    run = create_run(folder, new_run_id("week", time.time()), shared=False, fields={"name": "week"})
    begin_ns = 1000 * NS
    rng = np.random.default_rng(0)
    sources = [
        (energy_source(gpu, scale=1.0), gauge_source(gpu, "utilization", "ratio"))
        for gpu in range(GPUS)
    ]
    samples, sealer = StorageStage(run, 1, MACHINE_CLOCK), Sealer()
    summaries = SummaryStage(run, begin_ns)
    for stage in (samples, summaries):
        stage.open([source for of_gpu in sources for source in of_gpu])
    joules = np.zeros(GPUS)
    for first in range(0, SECONDS // EVERY_S, PORTION):
        at_ns = begin_ns + (first + np.arange(PORTION)) * EVERY_S * NS
        for gpu, (energy, busy) in enumerate(sources):
            watts = rng.normal(500 + 2 * gpu, 40, PORTION).clip(70, 700)
            counted = joules[gpu] + np.cumsum(watts) * EVERY_S
            joules[gpu] = counted[-1]
            for source, values in ((energy, counted), (busy, rng.random(PORTION))):
                readings = [
                    Sample(source.id, at, value, 20_000)
                    for at, value in zip(at_ns.tolist(), values.tolist(), strict=True)
                ]
                samples.readings(readings)
                summaries.readings(readings)
        samples.flush()
        summaries.advance([])
        sealer.take(samples.sync())
    sealer.take(samples.close())
    sealer.finish()
    end_ns = begin_ns + SECONDS * NS
    summaries.save(end_ns, [], [], Timelines(), followed=[])
    finish(run, begin_ns, end_ns)
    return run
