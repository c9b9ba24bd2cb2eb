"""How long does the report of a long run take, and how much memory?

    python benchmarks/report_1day.py                      24 h, 8 GPUs, 8 ranks
    python benchmarks/report_1day.py --hours 1 --gpus 2 --raw

The run is simulated, the recording is real: a day's readings and edges go through the recorder's
own attribution, sums and segments, in portions of five minutes. Then `probe report` is timed on
what they left. ``--raw`` also reports from all samples and edges, for the difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from common import ROOT, machine, save

sys.path.insert(0, str(ROOT))

from probe.clock import MACHINE_CLOCK
from probe.model import DeviceRequest, Kind, Provenance, RunStatus, Sample, Source
from probe.recorder.pipeline import attribution as attributing_module
from probe.recorder.pipeline.attribution import AttributionStage
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
from probe.timeline.spans import SpanDecoder

NS = 1_000_000_000
PORTION_S = 300
SECONDS, MIB = 5.0, 500.0  # the bars
# Phases of a step: code, mean milliseconds, watts.
STEP = (
    (Code.DATA, 12.0, 130.0),
    (Code.FORWARD, 80.0, 520.0),
    (Code.BACKWARD, 140.0, 640.0),
    (Code.OPTIMIZER, 18.0, 410.0),
)
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
    name: str = "main0"
    names: dict[int, str] = field(default_factory=dict)

    def values(self) -> dict[str, dict[str, float]]:
        return {}

    def portion(self, until_ns: int, rng: np.random.Generator, source: str):
        """(edges, samples of the counter) up to an instant."""
        mean_s = sum(ms for _, ms, _ in STEP) / 1e3
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
        rows = rows.ravel()
        rows["sequence"] = self.sequence + np.arange(len(rows))
        energy = self.joules + np.concatenate([[0.0], np.cumsum(lengths * watts)])
        last_ns = int(ends_ns[-1])
        samples = self._reads(last_ns, np.append(begins_ns, last_ns), energy, rng, source)
        self.sequence, self.steps = self.sequence + len(rows), self.steps + number
        self.now_ns, self.joules = last_ns, float(energy[-1])
        return rows, samples

    def _reads(self, until_ns, at_ns, energy, rng, source) -> list[Sample]:
        """As the sensor reads: one update in six is caught, the others once, amid two of them."""
        count = int(until_ns / 1e9 / PERIOD_S) - self.updates
        updates_s = (self.updates + 1 + np.arange(count)) * PERIOD_S
        updates_s += rng.normal(0.0, 1e-4, count)
        caught = (self.updates + np.arange(count)) % 6 == 0
        amid = updates_s + 0.5 * PERIOD_S
        reads = np.concatenate([amid, updates_s[caught] - 5e-4, updates_s[caught] + 5e-4])
        held = np.interp(updates_s * NS, at_ns, energy)
        before = np.concatenate([[held[0]], held[:-1]])
        value = np.concatenate([held, before[caught], held[caught]])
        order = np.argsort(reads)
        self.updates += count
        return [
            Sample(source, int(t * NS), 1000.0 * v, 20_000)
            for t, v in zip(reads[order], value[order], strict=True)
        ]


def sources_of(gpu: int) -> list[Source]:
    uuid = f"GPU-{gpu:04d}"
    gpu_is = {
        "device": f"gpu{gpu}",
        "uuid": uuid,
        "provenance": Provenance.MEASURED,
        "model": "NVIDIA H200",
    }
    energy = Source(
        id=f"nvml:{uuid}:energy",
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        scale=1e-3,
        method="counter",
        lag_s=0.0,
        offset_s=0.0,
        in_total=True,
        **gpu_is,
    )
    gauges = [
        ("power_limit", "W"),
        ("utilization", "ratio"),
        ("memory_used", "B"),
        ("temperature", "Cel"),
        ("sm_clock", "Hz"),
        ("dram_activity", "ratio"),
        ("sm_activity", "ratio"),
    ]
    return [
        energy,
        *(
            Source(
                id=f"nvml:{uuid}:{name}",
                quantity=name,
                unit=unit,
                kind=Kind.GAUGE,
                resolution_s=0.5 if "activity" in name else None,
                **gpu_is,
            )
            for name, unit in gauges
        ),
    ]


def gauges(sources: list[Source], begin_ns: int, end_ns: int, rng) -> Iterator[Sample]:
    """Twice a second each."""
    for at in range(begin_ns, end_ns, NS // 2):
        for source in sources[1:]:
            value = 700.0 if source.quantity == "power_limit" else float(rng.random())
            yield Sample(source.id, at, value, 30_000)


def record(folder: Path, hours: float, gpus: int) -> Path:
    """A finished run."""
    begin_ns = 1000 * NS
    end_ns = begin_ns + int(hours * 3600 * NS)
    run = create_run(folder, new_run_id("day", time.time()), shared=False, fields={"name": "day"})
    rng = np.random.default_rng(0)
    members = []
    for rank in range(gpus):
        request = DeviceRequest(uuids=(f"GPU-{rank:04d}",))
        members.append(
            Member(
                role="rank",
                rank=rank,
                local_rank=rank,
                local_world_size=gpus,
                world_size=gpus,
                host="",
                boot_id=boot_id(),
                pid=2**22 + rank,
                start_ticks=0,
                begin_ns=begin_ns,
                rings=str(run),
                prefix=f"{rank}-",
                request=request,
            )
        )
        members[-1].write(run)
    sources = [sources_of(gpu) for gpu in range(gpus)]
    flat = [source for mine in sources for source in mine]
    attributing, summaries = (
        AttributionStage(run, begin_ns, MACHINE_CLOCK),
        SummaryStage(run, begin_ns),
    )
    timelines = Timelines()
    samples, sealer = StorageStage(run, 1, MACHINE_CLOCK), Sealer()
    samples.open(flat)
    attributing.open(flat)
    summaries.open(flat)
    ranks = [Rank(rank, begin_ns, updates=int(begin_ns / 1e9 / PERIOD_S)) for rank in range(gpus)]
    edges = [
        SegmentWriter(layout.rank_dir(run, rank), "edges-main0-1", EDGES) for rank in range(gpus)
    ]
    for until_ns in range(begin_ns + PORTION_S * NS, end_ns + 1, PORTION_S * NS):
        for one, mine, writer in zip(ranks, sources, edges, strict=True):
            earlier_ns = one.now_ns
            rows, reads = one.portion(until_ns, rng, mine[0].id)
            readings = [*reads, *gauges(mine, earlier_ns, one.now_ns, rng)]
            writer.write({name: rows[name] for name in EDGES.names})
            sealer.take([path] if (path := writer.rotate_if_due()) else [])
            table = one.decoder.feed(rows, holes=())
            timelines.add(one.rank, one.name, rows, table)
            for take in (samples.readings, attributing.readings, summaries.readings):
                take(readings)
        samples.flush()
        sealer.take(samples.sync())
        settled = timelines.take(until_ns)
        attributing.spans(settled)
        summaries.spans(settled)
        attributing.advance(members)
        summaries.advance(members)
        print(f"\r{(until_ns - begin_ns) / 3.6e12:.2f} h", end="", file=sys.stderr, flush=True)
    end_ns = max(one.now_ns for one in ranks)
    sealer.take(samples.close())
    for writer in edges:
        sealer.take([path] if (path := writer.close()) else [])
    settled = timelines.take(None)
    attributing.spans(settled)
    summaries.spans(settled)
    attributing.save(members, timelines, end_ns)
    summaries.save(end_ns, ranks, members, timelines, followed=attributing.followed())
    sealer.finish()
    meta = files.read_json(run / layout.RUN_FILE)
    files.write_json(
        run / layout.RUN_FILE,
        meta
        | {
            "status": RunStatus.FINISHED,
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "true_j": sum(one.joules for one in ranks),
        },
    )
    print(file=sys.stderr)
    return run


# The peak of a process counts from before it was its own, but not the one of its memory.
COMMAND = """
import atexit, pathlib, sys
from probe.cli.main import main

def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")),
          file=sys.stderr)

atexit.register(peak)
main(["report", *sys.argv[1:], "--format", "json"])
"""


def timed(run: Path, *more: str) -> tuple[float, float, dict]:
    """(seconds, peak MiB, report) of the command in a process of its own."""
    began = time.monotonic()
    out = subprocess.run(
        [sys.executable, "-c", COMMAND, str(run), *more],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return time.monotonic() - began, int(out.stderr) / 1024, json.loads(out.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--keep", metavar="DIR", help="leave the run there")
    parser.add_argument("--raw", action="store_true", help="also from all samples and edges")
    options = parser.parse_args()
    print(json.dumps(machine()))
    attributing_module._MOST_CPU = float("inf")  # of real time; here an hour takes seconds
    with contextlib.ExitStack() as open_:
        folder = options.keep or open_.enter_context(tempfile.TemporaryDirectory())
        began = time.monotonic()
        run = record(Path(folder), options.hours, options.gpus)
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        print(
            f"recorded {options.hours:g} h of {options.gpus} GPUs in "
            f"{time.monotonic() - began:.0f} s, {size / 2**20:.0f} MiB on disk"
        )
        true_j = files.read_json(run / layout.RUN_FILE)["true_j"]
        seconds, mib, report = min((timed(run) for _ in range(3)), key=lambda found: found[0])
        off = report["total"]["energy_j"] / true_j - 1
        resolved = [row for row in report["phases"] if row["status"] == "resolved"]
        print(
            f"report: {seconds:.2f} s, {mib:.0f} MiB; total off by {off:+.1e}; "
            f"{len(resolved)} of {len(report['phases'])} rows resolved"
        )
        result = {
            "hours": options.hours,
            "gpus": options.gpus,
            "disk_mib": round(size / 2**20),
            "seconds": round(seconds, 2),
            "mib": round(mib),
            "total_off": off,
        }
        if options.raw:
            raw_s, raw_mib, raw = timed(run, "--recompute")
            apart = report["total"]["energy_j"] / raw["total"]["energy_j"] - 1
            print(
                f"from all samples and edges: {raw_s:.1f} s, {raw_mib:.0f} MiB; "
                f"totals differ by {apart:+.1e}"
            )
        held = result["held"] = seconds <= SECONDS and mib <= MIB and abs(off) < 1e-4
    save("report_1day", result)
    print(f"bar: {SECONDS:g} s and {MIB:g} MiB: {'held' if held else 'MISSED'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
