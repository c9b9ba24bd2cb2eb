"""A native Perfetto trace: phases of every rank, and power, memory and activity under them.

Open it at ui.perfetto.dev or with ``trace_processor``. Times are the host's monotonic clock, tied
to the wall clock by a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from probe.clock import Anchor

from ._shared.run import ExportRefused, StoredRun, write_whole
from ._shared.timeline import Levels, Slices, tracks

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket
    from perfetto.trace_builder.proto_builder import TraceProtoBuilder

_SEQUENCE = 1
_MONOTONIC, _BOOTTIME, _REALTIME = 3, 6, 1  # BuiltinClock
_INCREMENTAL, _CLEARED = 2, 1  # SequenceFlags


@dataclass(slots=True)
class _Writer:
    builder: TraceProtoBuilder
    protos: ModuleType
    uuids: dict[str, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def packet(self) -> TracePacket:
        packet = self.builder.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.timestamp_clock_id = _MONOTONIC
        packet.sequence_flags = _INCREMENTAL
        return packet

    def track(self, name: str, parent: int | None = None, unit: str | None = None) -> int:
        """A track by its name; ``unit`` makes it a counter's."""
        key = f"{parent}/{name}"
        if key not in self.uuids:
            self.uuids[key] = uuid = len(self.uuids) + 1
            descriptor = self.packet().track_descriptor
            descriptor.uuid, descriptor.name = uuid, name
            if parent is not None:
                descriptor.parent_uuid = parent
            if unit is not None:
                descriptor.counter.unit_name = unit
        return self.uuids[key]

    def add_slices(self, slices: Slices) -> None:
        track = self.track(slices.track, self.track(slices.group))
        event = self.protos.TrackEvent
        for begin, end, name in zip(
            slices.begin_ns.tolist(), slices.end_ns.tolist(), slices.name, strict=True
        ):
            packet = self.packet()
            packet.timestamp = begin
            packet.track_event.type, packet.track_event.track_uuid = event.TYPE_SLICE_BEGIN, track
            if name not in self.names:
                self.names[name] = len(self.names) + 1
                interned = packet.interned_data.event_names.add()
                interned.iid, interned.name = self.names[name], name
            packet.track_event.name_iid = self.names[name]
            packet = self.packet()
            packet.timestamp = end
            packet.track_event.type, packet.track_event.track_uuid = event.TYPE_SLICE_END, track

    def add_levels(self, levels: Levels, begin_ns: int, end_ns: int) -> None:
        track = self.track(levels.track, self.track(levels.group), levels.unit)
        inside = (levels.time_ns >= begin_ns) & (levels.time_ns <= end_ns)
        for time, value in zip(
            levels.time_ns[inside].tolist(), levels.value[inside].tolist(), strict=True
        ):
            packet = self.packet()
            packet.timestamp = time
            event = packet.track_event
            event.type, event.track_uuid = self.protos.TrackEvent.TYPE_COUNTER, track
            event.double_counter_value = value


@dataclass(frozen=True, slots=True)
class Perfetto:
    """A native Perfetto trace (--set steps=100:200 for some steps only)."""

    name: ClassVar[str] = "perfetto"
    output: ClassVar[str] = "{id}.pftrace"

    steps: str = "all"

    def export(self, run: StoredRun, output: Path) -> str:
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
            from perfetto.trace_builder.proto_builder import TraceProtoBuilder
        except ImportError:
            raise ExportRefused(
                "perfetto needs its package: pip install 'phasewatt[exporters]'"
            ) from None
        run_tracks = tracks(run, self.steps)
        writer = _Writer(TraceProtoBuilder(), protos)
        self._clocks(writer, run.anchor)
        for slices in run_tracks.slices:
            writer.add_slices(slices)
        for levels in run_tracks.levels:
            writer.add_levels(levels, run_tracks.begin_ns, run_tracks.end_ns)
        write_whole(output, writer.builder.serialize())
        number = sum(len(s.name) for s in run_tracks.slices)
        return f"{output}: {number} slices; open it at https://ui.perfetto.dev"

    @staticmethod
    def _clocks(writer: _Writer, anchor: Anchor) -> None:
        packet = writer.packet()
        packet.sequence_flags = _CLEARED
        for clock, time in (
            (_MONOTONIC, anchor.monotonic_ns),
            (_REALTIME, anchor.wall_ns),
            (_BOOTTIME, anchor.monotonic_ns),
        ):
            snapshot = packet.clock_snapshot.clocks.add()
            snapshot.clock_id, snapshot.timestamp = clock, time


EXPORTER = Perfetto()
