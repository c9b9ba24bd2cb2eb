"""Some hours of ranks and GPUs, simulated and really recorded, segment by segment.

Used by thirty_days.py, which repeats them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from probe.analysis.summary_file import read_summary, write_summary
from probe.attribution.meter.energy_curve import EnergyCurve
from probe.attribution.meter.summary import MeterSummary
from probe.attribution.time_split import TimeShare, TimeShares
from probe.clock import MACHINE_CLOCK
from probe.recorder.pipeline import attribution
from probe.recorder.pipeline.storage import StorageStage
from probe.recorder.pipeline.summary import SummaryStage
from probe.recorder.pipeline.timelines import Timelines
from probe.store import layout
from probe.store.rollup import roll_up
from probe.store.runs import create_run, new_run_id
from probe.store.segments import EDGES, LEDGER, SegmentWriter, seal_segment
from tests.fakes.stored_run import NS

from .day import PERIOD_S, STEP_S, Rank, gauges, members_of, sources_of

HOUR_S = 3600
BEGIN_NS = 1000 * HOUR_S * NS  # a full hour of the clock


class Recording:
    """The recorder's stages and writers, fed portion by portion."""

    def __init__(self, folder: Path, ranks: int, steps_per_s: float):
        """Begin a run; every rank has a GPU of its own."""
        self.run = create_run(
            folder, new_run_id("month", time.time()), shared=False, fields={"name": "month"}
        )
        self.node = layout.node_dir(self.run)
        self.members = members_of(self.run, ranks, BEGIN_NS)
        self._rng = np.random.default_rng(0)
        self._sources = [sources_of(gpu) for gpu in range(ranks)]
        attribution._MOST_CPU = float("inf")  # of real time; here an hour takes seconds
        self._attribution = attribution.AttributionStage(self.run, BEGIN_NS, MACHINE_CLOCK)
        self._summary = SummaryStage(self.run, BEGIN_NS)
        self._samples = StorageStage(self.run, 1, MACHINE_CLOCK)
        self._timelines = Timelines()
        self._stages = (self._samples, self._attribution, self._summary)
        for stage in self._stages:
            stage.open([source for of_gpu in self._sources for source in of_gpu])
        speed = steps_per_s * STEP_S
        updates = int(BEGIN_NS / 1e9 / PERIOD_S)
        self.ranks = [
            Rank(r, BEGIN_NS, updates=updates, speed=speed, on_gpu=True) for r in range(ranks)
        ]
        folders = [layout.rank_dir(self.run, rank) for rank in range(ranks)]
        self._edges = [SegmentWriter(folder, "edges-main0-1", EDGES) for folder in folders]
        self._ledgers = [SegmentWriter(folder, "ledger-main0-1", LEDGER) for folder in folders]

    def portion(self, until_ns: int) -> None:
        """One segment of every table."""
        for rank, sources, edges, ledger in zip(
            self.ranks, self._sources, self._edges, self._ledgers, strict=True
        ):
            earlier_ns = rank.now_ns
            rows, reads = rank.portion(until_ns, self._rng, sources[0].id)
            readings = [*reads, *gauges(sources, earlier_ns, rank.now_ns, self._rng)]
            table = rank.decoder.feed(rows, holes=())
            self._timelines.add(rank.rank, rank.name, rows, table)
            # Batches as small as a recorder's, or they would compress better than its.
            for part in np.array_split(rows, 1 + len(rows) // 4096):
                edges.write({name: part[name] for name in EDGES.names})
            ledger.write(table.ledger())
            self._seal([*edges.close(), *ledger.close()], until_ns)
            for stage in self._stages:
                stage.readings(readings)
            settled = self._timelines.take(until_ns)
            for stage in (self._attribution, self._summary):
                stage.spans(settled)
        self._samples.flush()
        self._seal(self._samples.close(), until_ns)
        for stage in (self._attribution, self._summary):
            stage.advance(self.members)

    def _seal(self, closed: list[Path], closed_ns: int) -> None:
        for path in closed:
            sealed = seal_segment(path, closed_ns)
            if sealed is not None and path.name.startswith("samples-"):
                roll_up(sealed, self.node)

    def end(self, end_ns: int) -> None:
        """Seal what was summed up."""
        settled = self._timelines.take(None)
        for stage in (self._attribution, self._summary):
            stage.spans(settled)
        self._attribution.save(self.members, self._timelines, end_ns)
        followed = self._attribution.followed()
        self._summary.save(end_ns, self.ranks, self.members, self._timelines, followed=followed)


def stretch(run: Path, times: float) -> float:
    """Let the summary be that of a run so many times as long; its joules."""
    node = read_summary(run, layout.node_name())
    assert node is not None
    joules = 0.0

    def meter(summary: MeterSummary) -> MeterSummary:
        nonlocal joules
        curve, shares = summary.curve, summary.shares
        if curve is None or shares is None:
            return summary
        length_ns, used = int(curve.time_ns[-1] - curve.time_ns[0]), curve.joules[-1]
        place = np.linspace(0.0, times, len(curve.time_ns))  # in recordings; as many knots
        whole, part = np.divmod(place, 1.0)
        within = part * length_ns
        at = np.interp(within, curve.time_ns - curve.time_ns[0], curve.joules - curve.joules[0])
        time_ns = curve.time_ns[0] + (whole * length_ns + within).astype(np.int64)
        longer = EnergyCurve(
            time_ns,
            curve.joules[0] + whole * (used - curve.joules[0]) + at,
            curve.slack_ns,
            curve.period_s,
            curve.resets,
        )
        joules += float(longer.joules[-1] - longer.joules[0])
        of = {
            code: TimeShare(
                int(s.time_ns * times), s.energy_j * times, s.low_j * times, s.high_j * times
            )
            for code, s in shares.of.items()
        }
        return replace(summary, curve=longer, shares=TimeShares(shares.powers_w, of))

    totals = [
        replace(
            phases,
            seconds={code: s * times for code, s in phases.seconds.items()},
            counts={code: int(n * times) for code, n in phases.counts.items()},
            steps=int(phases.steps * times),
        )
        for phases in node.phase_totals
    ]
    meters = {id_: meter(summary) for id_, summary in node.meters.items()}
    write_summary(run, replace(node, meters=meters, phase_totals=totals))
    return joules
