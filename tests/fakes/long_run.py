"""A run of days in seconds, segment by segment; the real code seals them and looks after them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from probe.recorder.upkeep.upkeep import Upkeep
from probe.ring.layout import Code, Record
from probe.ring.reader import SLOT_DTYPE
from probe.store import files, layout
from probe.store.rollup import roll_up
from probe.store.sealed_files import Fence, no_fence
from probe.store.segments import EDGES, LEDGER, SAMPLES, SegmentWriter, seal_segment
from probe.timeline.spans import SpanDecoder

from .stored_run import NS, energy_source, stored_run

BEGIN_NS = 1000 * 3600 * NS  # a full hour of the clock
STEP = ((Code.DATA, 0.2), (Code.FORWARD, 0.3), (Code.BACKWARD, 0.4), (Code.OPTIMIZER, 0.1))
WATTS = 100.0
SAMPLES_CODE, LOSS_CODE = 70, 71
NAMES = {str(SAMPLES_CODE): "samples", str(LOSS_CODE): "loss"}


@dataclasses.dataclass
class LongRun:
    """One rank on one GPU; steps of ``step_s``, readings and segments of so many seconds."""

    folder: Path
    segment_s: int = 3600
    step_s: float = 20.0
    every_s: int = 5  # between two readings
    epoch: int = 1
    fence: Fence = no_fence

    def __post_init__(self) -> None:
        none = np.zeros(0, np.int64)
        source = energy_source(0)
        self.path = stored_run(
            self.folder, [(source, (none, none.astype(float)))], 1.0, begin_ns=BEGIN_NS
        )
        self.node = layout.node_dir(self.path)
        self.rank = layout.rank_dir(self.path, 0)
        self.rank.mkdir()
        files.write_json(self.rank / "names-main0.json", NAMES, checked=True)
        self.now_ns = BEGIN_NS
        self.steps = 0
        self._sequence = 0
        self._decoder = SpanDecoder()
        self.replace_recorder(self.epoch)

    def replace_recorder(self, epoch: int) -> None:
        """Another one goes on, with files of its own."""
        self.epoch = epoch
        self.upkeep = Upkeep(self.path, epoch, self.fence)
        self.writers = {
            "samples": SegmentWriter(self.node, f"samples-{epoch}", SAMPLES),
            "edges": SegmentWriter(self.rank, f"edges-main0-{epoch}", EDGES),
            "ledger": SegmentWriter(self.rank, f"ledger-main0-{epoch}", LEDGER),
        }

    def record(self, hours: float, *, tidy: bool = True) -> None:
        """Write so much more, sealed and looked after segment by segment."""
        until_ns = self.now_ns + round(hours * 3600) * NS
        while self.now_ns < until_ns:
            self.segment()
            if tidy:
                self.tidy()

    def tidy(self) -> int:
        """What the recorder's sealer does every five minutes; fails if it fails."""
        failed: list[str] = []
        done = self.upkeep.tidy(self.now_ns, failed.append)
        assert not failed, failed
        return done

    def segment(self) -> None:
        """One segment of each table."""
        end_ns = self.now_ns + self.segment_s * NS
        rows = self._edges(end_ns)
        at = np.arange(self.now_ns, end_ns, self.every_s * NS)
        self.writers["samples"].write(
            {
                "source": np.zeros(len(at), np.uint16),
                "time_ns": at,
                "value": 1e3 * WATTS * (at - BEGIN_NS) / NS,
                "span_ns": np.full(len(at), 1000, np.int32),
            }
        )
        self.writers["edges"].write({name: rows[name] for name in EDGES.names})
        self.writers["ledger"].write(self._decoder.feed(rows, holes=()).ledger())
        self.now_ns = end_ns
        for writer in self.writers.values():
            for path in writer.close():
                sealed = seal_segment(path, end_ns)
                if sealed is not None and path.name.startswith("samples-"):
                    roll_up(sealed, self.node)

    def _edges(self, end_ns: int) -> np.ndarray:
        parts = []
        at = self.now_ns
        while at + self.step_s * NS <= end_ns:
            for code, share in STEP:
                parts.append((at, -1, Record.MARK, code))
                at += round(share * self.step_s * NS)
            loss = float(np.exp(-self.steps / 1e4))
            parts.append((at, _bits(4.0), Record.VALUE, SAMPLES_CODE))
            parts.append((at, _bits(loss), Record.VALUE, LOSS_CODE))
            parts.append((at, self.steps, Record.STEP, 0))
            self.steps += 1
        rows = np.zeros(len(parts), SLOT_DTYPE)
        for name, column in zip(
            ("time_ns", "payload", "kind", "code"), zip(*parts, strict=True), strict=True
        ):
            rows[name] = column
        rows["sequence"] = self._sequence + np.arange(len(rows))
        self._sequence += len(rows)
        return rows

    def finish(self) -> None:
        """Say in run.json how long it took."""
        meta = files.read_json(self.path / layout.RUN_FILE)
        end = {"end_ns": self.now_ns, "steps": self.steps}
        files.write_json(self.path / layout.RUN_FILE, meta | end, checked=True)

    def files(self) -> list[Path]:
        """All of the run."""
        return [path for path in self.path.rglob("*") if path.is_file()]


def _bits(value: float) -> int:
    return int(np.float64(value).view(np.int64))
