"""A day of eight GPUs and ranks, recorded: the run is simulated, the recording is real.

Its readings and edges go through the recorder's attribution, sums and segments, in portions of
five minutes. Used by report_1day.py and by the dashboard's benchmarks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from probe.clock import MACHINE_CLOCK
from probe.model import DeviceRequest, RunStatus, Sample, Source
from probe.recorder.pipeline import attribution
from probe.recorder.pipeline.storage import StorageStage
from probe.recorder.pipeline.summary import SummaryStage
from probe.recorder.pipeline.timelines import Timelines
from probe.recorder.sealer import Sealer
from probe.ring.layout import Code, Record
from probe.ring.reader import SLOT_DTYPE
from probe.store import files, layout
from probe.store.members import Member
from probe.store.processes import boot_id
from probe.store.runs import create_run, new_run_id
from probe.store.segments import EDGES, SegmentWriter
from probe.timeline.optimizer_steps import OptimizerSteps
from probe.timeline.spans import SpanDecoder
from probe.timeline.step_times import StepDurations
from tests.fakes.stored_run import NS, energy_source, gauge_source

PORTION_S = 300
# Phases of a step: code, mean milliseconds, watts.
STEP = (
    (Code.DATA, 12.0, 130.0),
    (Code.FORWARD, 80.0, 520.0),
    (Code.BACKWARD, 140.0, 640.0),
    (Code.OPTIMIZER, 18.0, 410.0),
)
STEP_S = sum(ms for _, ms, _ in STEP) / 1e3
PERIOD_S = 0.1  # of the energy counter


@dataclass
class Rank:
    """One rank and its GPU: edges and the energy behind them."""

    rank: int
    now_ns: int
    decoder: SpanDecoder = field(default_factory=SpanDecoder)
    sequence: int = 0
    steps: int = 0
    joules: float = 0.0
    updates: int = 0  # of the counter
    speed: float = 1.0  # steps take so much less time than STEP says
    on_gpu: bool = False  # with the records that only a GPU gives
    name: str = "main0"
    names: dict[int, str] = field(default_factory=dict)
    durations: StepDurations = field(default_factory=StepDurations)

    def optimizers(self) -> OptimizerSteps:
        """There is one only."""
        return OptimizerSteps()

    def values(self) -> dict[str, dict[str, float]]:
        """Of what it logged: nothing."""
        return {}

    def portion(
        self, until_ns: int, rng: np.random.Generator, source: str
    ) -> tuple[Any, list[Sample]]:
        """(edges, samples of the counter) up to an instant."""
        mean_s = STEP_S / self.speed
        number = int((until_ns - self.now_ns) / 1e9 / mean_s)
        drawn = np.array([ms for _, ms, _ in STEP]) / 1e3
        lengths = (drawn * rng.normal(1.0, 0.08, (number, len(STEP))).clip(0.5)).ravel()
        lengths *= (until_ns - self.now_ns) / 1e9 / lengths.sum()  # all ranks end together
        watts = np.tile([w for *_, w in STEP], number)
        ends_ns = self.now_ns + (np.cumsum(lengths) * NS).astype(np.int64)
        ends_ns[-1] = until_ns
        begins_ns = np.concatenate([[self.now_ns], ends_ns[:-1]])
        rows = np.zeros(number * (len(STEP) + 1), SLOT_DTYPE).reshape(number, -1)
        rows["kind"], rows["kind"][:, -1] = Record.MARK, Record.STEP
        rows["code"][:, :-1] = [code for code, *_ in STEP]
        rows["time_ns"][:, :-1] = begins_ns.reshape(number, -1)
        rows["time_ns"][:, -1] = ends_ns.reshape(number, -1)[:, -1]
        rows["payload"] = -1
        rows["payload"][:, -1] = self.steps + np.arange(number)
        self.durations.add(rows["time_ns"][:, -1].astype(np.int64))
        if self.on_gpu:
            rows = _with_device(rows, rng)
        rows = rows.ravel()
        rows["sequence"] = self.sequence + np.arange(len(rows))
        energy = self.joules + np.concatenate([[0.0], np.cumsum(lengths * watts)])
        last_ns = int(ends_ns[-1])
        samples = self._reads(last_ns, np.append(begins_ns, last_ns), energy, rng, source)
        self.sequence, self.steps = self.sequence + len(rows), self.steps + number
        self.now_ns, self.joules = last_ns, float(energy[-1])
        return rows, samples

    def _reads(self, until_ns: int, at_ns: Any, energy: Any, rng: Any, source: str) -> list[Sample]:
        """As the sensor reads: one update in six is bracketed; between the others it reads once."""
        count = int(until_ns / 1e9 / PERIOD_S) - self.updates
        updates_s = (self.updates + 1 + np.arange(count)) * PERIOD_S
        updates_s += rng.normal(0.0, 1e-4, count)
        caught = (self.updates + np.arange(count)) % 6 == 0
        between = updates_s + 0.5 * PERIOD_S
        reads = np.concatenate([between, updates_s[caught] - 5e-4, updates_s[caught] + 5e-4])
        held = np.interp(updates_s * NS, at_ns, energy)
        before = np.concatenate([[held[0]], held[:-1]])
        value = np.concatenate([held, before[caught], held[caught]])
        order = np.argsort(reads)
        self.updates += count
        return [
            Sample(source, int(t * NS), 1000.0 * v, 20_000)
            for t, v in zip(reads[order], value[order], strict=True)
        ]


def _with_device(rows: Any, rng: np.random.Generator) -> Any:
    """A device time after each mark, and what the allocator holds after each step."""
    marks, end = rows[:, :-1], rows[:, -1:]
    device = marks.copy()
    device["kind"] = Record.DEVICE
    device["payload"] = marks["time_ns"] + rng.integers(20_000, 200_000, marks.shape)
    both = np.stack([marks, device], axis=2).reshape(len(rows), -1)
    memory = np.repeat(end, 3, axis=1)
    memory["kind"], memory["code"] = Record.MEMORY, [80, 81, 82]
    memory["payload"] = 512 * rng.integers(1 << 26, (1 << 26) + 1000, memory.shape)
    return np.concatenate([both, memory, end], axis=1)


def sources_of(gpu: int) -> list[Source]:
    """The energy counter of a card, then its gauges."""
    model = "NVIDIA H200"
    gauges = (
        ("power_limit", "W"),
        ("utilization", "ratio"),
        ("memory_used", "B"),
        ("temperature", "Cel"),
        ("sm_clock", "Hz"),
        ("dram_activity", "ratio"),
        ("sm_activity", "ratio"),
    )
    return [
        energy_source(gpu, model=model, resolution_s=None),
        *(
            gauge_source(
                gpu, name, unit, model=model, resolution_s=0.5 if "activity" in name else None
            )
            for name, unit in gauges
        ),
    ]


def gauges(sources: list[Source], begin_ns: int, end_ns: int, rng: Any) -> Iterator[Sample]:
    """Twice a second each."""
    for at in range(begin_ns, end_ns, NS // 2):
        for source in sources[1:]:
            value = 700.0 if source.quantity == "power_limit" else float(rng.random())
            yield Sample(source.id, at, value, 30_000)


def members_of(run: Path, ranks: int, begin_ns: int) -> list[Member]:
    """Ranks of one host, each on the GPU of its number; their files are in the run."""
    members = []
    for rank in range(ranks):
        members.append(
            Member(
                role="rank",
                rank=rank,
                local_rank=rank,
                local_world_size=ranks,
                world_size=ranks,
                host="",
                boot_id=boot_id(),
                pid=2**22 + rank,
                start_ticks=0,
                begin_ns=begin_ns,
                rings=str(run),
                prefix=f"{rank}-",
                request=DeviceRequest(uuids=(f"GPU-{rank}",)),
            )
        )
        members[-1].write(run)
    return members


def record(folder: Path, hours: float, gpus: int) -> Path:
    """A finished run; `true_j` in its file is what all its GPUs used."""
    begin_ns = 1000 * NS
    end_ns = begin_ns + int(hours * 3600 * NS)
    run = create_run(folder, new_run_id("day", time.time()), shared=False, fields={"name": "day"})
    rng = np.random.default_rng(0)
    members = members_of(run, gpus, begin_ns)
    sources = [sources_of(gpu) for gpu in range(gpus)]
    flat = [source for of_gpu in sources for source in of_gpu]
    attribution._MOST_CPU = float("inf")  # of real time; here an hour takes seconds
    attributing = attribution.AttributionStage(run, begin_ns, MACHINE_CLOCK)
    summaries = SummaryStage(run, begin_ns)
    timelines = Timelines()
    samples, sealer = StorageStage(run, 1, MACHINE_CLOCK), Sealer()
    for stage in (samples, attributing, summaries):
        stage.open(flat)
    ranks = [Rank(rank, begin_ns, updates=int(begin_ns / 1e9 / PERIOD_S)) for rank in range(gpus)]
    edges = [
        SegmentWriter(layout.rank_dir(run, rank), "edges-main0-1", EDGES) for rank in range(gpus)
    ]
    for until_ns in range(begin_ns + PORTION_S * NS, end_ns + 1, PORTION_S * NS):
        for rank, of_gpu, writer in zip(ranks, sources, edges, strict=True):
            earlier_ns = rank.now_ns
            rows, reads = rank.portion(until_ns, rng, of_gpu[0].id)
            readings = [*reads, *gauges(of_gpu, earlier_ns, rank.now_ns, rng)]
            writer.write({name: rows[name] for name in EDGES.names})
            sealer.take(writer.rotate_if_due())
            table = rank.decoder.feed(rows, holes=())
            timelines.add(rank.rank, rank.name, rows, table)
            for stage in (samples, attributing, summaries):
                stage.readings(readings)
        samples.flush()
        sealer.take(samples.sync())
        settled = timelines.take(until_ns)
        for stage in (attributing, summaries):
            stage.spans(settled)
            stage.advance(members)
        print(f"\r{(until_ns - begin_ns) / 3.6e12:.2f} h", end="", file=sys.stderr, flush=True)
    end_ns = max(rank.now_ns for rank in ranks)
    sealer.take(samples.close())
    for writer in edges:
        sealer.take(writer.close())
    settled = timelines.take(None)
    for stage in (attributing, summaries):
        stage.spans(settled)
    attributing.save(members, timelines, end_ns)
    summaries.save(end_ns, ranks, members, timelines, followed=attributing.followed())
    sealer.finish()
    finish(run, begin_ns, end_ns, true_j=sum(rank.joules for rank in ranks))
    print(file=sys.stderr)
    return run


def finish(run: Path, begin_ns: int, end_ns: int, **fields: Any) -> None:
    """Say in the run's file that it has finished."""
    status = {"status": RunStatus.FINISHED, "begin_ns": begin_ns, "end_ns": end_ns}
    meta = files.read_json(run / layout.RUN_FILE) or {}
    files.write_json(run / layout.RUN_FILE, meta | status | fields)
