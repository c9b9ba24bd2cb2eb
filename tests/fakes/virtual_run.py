"""A run in virtual time: the real recorder beside a scripted trainer and a counter of known power.

The trainer writes the marks of a trace (:mod:`tests.fakes.power_traces`) into a real ring, the
sensor shows the trace's energy as a counter of millijoules would, read when the product's own
scheduler says so. What the recorder should find is known exactly.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import ClassVar

import numpy as np

from probe.model import DeviceRequest, Reading, Sample, Source
from probe.recorder.loop import Recorder
from probe.recorder.sensors.carbon_lookup import CarbonLookup
from probe.recorder.sensors.node_sensors import NodeSensors
from probe.recorder.spawn import claim
from probe.ring.layout import CODE_OF_PHASE, EndCode, Record
from probe.ring.writer import RingWriter
from probe.sensors import SensorContext
from probe.sensors.nvml.update_tracker import UpdateTracker
from probe.store import files, layout
from probe.store.members import Member
from probe.store.processes import boot_id, start_ticks
from probe.store.runs import create_run

from .power_traces import Counter, Part, Trace, World, make_trace
from .stored_run import energy_source
from .virtual_clock import NS, VirtualClock

# Every phase draws its watts and no other, so a phase's energy is watts times seconds.
EXACT = World(
    lag=((1.0, 0.0),), instance_cv=0.0, drift_cv=0.0, warm_up=0.0, profile_cv=0.0, edge_noise_s=0.0
)
PHASES = (
    Part("data", 14.0, 0.5, 100.0),
    Part("forward", 52.0, 0.1, 300.0),
    Part("backward", 83.0, 0.1, 500.0),
    Part("optimizer", 18.0, 0.2, 200.0),
)
CALL_NS = 120_000  # NVML's energy call


class VirtualRun:
    """One run with one rank on one GPU; its trainer starts and ends with the trace."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        *,
        parts: Sequence[Part] = PHASES,
        counter: Counter | None = None,
        seed: int = 5,
        portion_s: float = 0.25,
        joins: bool = True,
    ):
        """
        Args:
            portion_s: how often the trainer writes what it has done meanwhile.
            joins: whether there is a trainer at all.
        """
        rng = np.random.default_rng(seed)
        self.trace: Trace = make_trace(parts, seconds, rng, EXACT)
        self.clock = VirtualClock()
        self.path = create_run(folder, "virtual", shared=False, fields={"name": "virtual"})
        self._begin_at_the_clocks_time()
        self._portion_s = portion_s
        self._sensor = counter_sensor(self.trace, counter or Counter(), self.clock.now_ns(), rng)
        if joins:
            self._join()
            self.clock.run(self._train())

    @property
    def steps(self) -> int:
        """How many the trainer takes; the last may be short."""
        return int((self.trace.code == 0).sum())

    def _join(self) -> None:
        prefix = f"phasewatt-{os.getuid()}-{self.path.name}-0-1.1-"
        folder = self.path / "rings"
        folder.mkdir()
        self._ring = RingWriter(folder / f"{prefix}main.ring")
        Member(
            role="rank",
            rank=0,
            local_rank=0,
            local_world_size=1,
            world_size=1,
            host=layout.node_name(),
            boot_id=boot_id(),
            pid=os.getpid(),
            start_ticks=start_ticks(os.getpid()) or 0,
            begin_ns=self.clock.now_ns(),
            rings=str(folder),
            prefix=prefix,
            request=DeviceRequest(),
        ).write(self.path)

    def record(self, epoch: int = 1) -> None:
        """The real recorder, until the trainer has ended or another one takes over."""
        claim(self.path, epoch)
        open_sensors = functools.partial(
            NodeSensors,
            kinds={self._sensor.name: self._sensor},
            start=self.clock.run_sensor,
            carbon=NoCarbon(),
        )
        Recorder(self.path, epoch, self.clock, open_sensors).serve()

    def truth_j(self) -> dict[str, float]:
        """Joules of each phase: its watts times its seconds."""
        joules = self.trace.truth(0.0, float(self.trace.edges_s[-1]))
        return dict(zip(self.trace.names, joules.tolist(), strict=True))

    def _begin_at_the_clocks_time(self) -> None:
        now_ns = self.clock.now_ns()
        meta = json.loads((self.path / layout.RUN_FILE).read_text())
        anchor = {"monotonic_ns": now_ns, "wall_ns": round(self.clock.wall_s() * NS)}
        files.write_json(self.path / layout.RUN_FILE, meta | {"begin_ns": now_ns, "anchor": anchor})

    def _train(self) -> Iterator[float]:
        begin_ns, write = self.clock.now_ns(), self._ring.write_at
        codes = [CODE_OF_PHASE[name] for name in self.trace.names]
        time_ns = begin_ns + (self.trace.span_s * NS).astype(np.int64)
        steps = 0
        for at_ns, phase in zip(time_ns.tolist(), self.trace.code.tolist(), strict=False):
            while at_ns > self.clock.now_ns():
                yield min(self._portion_s, (at_ns - self.clock.now_ns()) / NS)
            if phase == 0 and at_ns > begin_ns:
                write(at_ns, Record.STEP, 0, steps)
                steps += 1
            write(at_ns, Record.MARK, codes[phase], -1)
        end_ns = int(time_ns[-1])
        yield (end_ns - self.clock.now_ns()) / NS
        write(end_ns, Record.STEP, 0, steps)
        write(end_ns, Record.END, EndCode.FINISHED, 0)
        self._ring.close()


def counter_sensor(trace: Trace, counter: Counter, begin_ns: int, rng: np.random.Generator) -> type:
    """A sensor class that shows the trace's energy as a counter; it stands still after the end."""
    at_s, joules = counter.updates(trace, rng)
    at_s = np.append(at_s, at_s[-1] + np.arange(1, 4) * counter.period_s)
    joules = np.append(joules, trace.energy(np.minimum(at_s[-3:], trace.edges_s[-1])))
    update_ns = begin_ns + (at_s * NS).astype(np.int64)
    raw = np.concatenate([[0.0], joules * 1e3])
    seed = int(rng.integers(2**31))

    class CounterSensor:
        name: ClassVar[str] = "counter"

        def __init__(self, context: SensorContext) -> None:
            self.absent: list[object] = []
            self.warnings: list[str] = []
            self._clock = context.clock
            self._lock = UpdateTracker(context.clock.now_ns(), Random(seed))
            self._seen = -1
            self._source = energy_source(0)

        def open(self) -> Sequence[Source]:
            return [self._source]

        def read(self) -> Iterable[Reading]:
            now_ns = self._clock.now_ns()
            updates = int(np.searchsorted(update_ns, now_ns, "right"))
            self._lock.observe(now_ns, updates != self._seen and self._seen >= 0)
            self._seen = updates
            return [Sample(self._source.id, now_ns + CALL_NS // 2, raw[updates], CALL_NS)]

        def next_read_ns(self) -> int:
            return int(self._lock.next_ns)

        def close(self) -> None:
            return None

    return CounterSensor


class NoCarbon(CarbonLookup):
    """CodeCarbon's data take a second to load."""

    def start(self, country: str | None, after: Iterable[object]) -> None:
        return None
