"""Readings of all sensors into the samples table; gaps into gaps.jsonl."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ...clock import Clock
from ...model import Gap, Reading, Sample, Source
from ...report.model import JsonValue
from ...store import files, layout
from ...store.new_files import open_to_append
from ...store.node_files import gap_line
from ...store.segments import SAMPLES, Columns, SegmentWriter

_KEPT_WHEN_DISK_REFUSES = 200_000  # readings; then the oldest become a Gap


class StorageStage:
    """Appends readings; a source is known on disk before its first sample."""

    def __init__(self, run: Path, epoch: int, clock: Clock):
        self._folder = layout.node_dir(run)
        self._writer = SegmentWriter(self._folder, f"samples-{epoch}", SAMPLES, clock)
        self._gaps_path = self._folder / "gaps.jsonl"
        self._sources: dict[str, Mapping[str, JsonValue]] = {}
        for value in files.read_json(self._folder / "sources.json") or ():
            self._sources[value["id"]] = value
        self._index = {id_: i for i, id_ in enumerate(self._sources)}
        self._unwritten = False  # sources that the disk has not taken
        self._samples: list[Sample] = []
        self._gaps: list[Gap] = []

    def open(self, sources: Iterable[Source]) -> None:
        """Write new or changed sources. Raises OSError; the next :meth:`flush` tries again."""
        before = dict(self._sources)
        for source in sources:
            self._sources[source.id] = dataclasses.asdict(source)
        self._index = {id_: i for i, id_ in enumerate(self._sources)}
        self._unwritten |= self._sources != before
        self._write_sources()

    def sources(self) -> list[Mapping[str, JsonValue]]:
        """All sources so far, as in sources.json."""
        return list(self._sources.values())

    def readings(self, readings: Iterable[Reading]) -> None:
        """Take readings; they reach the disk at the next :meth:`flush`."""
        for reading in readings:
            if isinstance(reading, Gap):
                self._gaps.append(reading)
            elif reading.source in self._index:
                self._samples.append(reading)

    def flush(self) -> None:
        """Write what was added. Raises OSError; what was not written is kept, within bounds."""
        try:
            self._write_sources()
            self._write_gaps()
            self._write_samples()
        except OSError:
            excess = len(self._samples) - _KEPT_WHEN_DISK_REFUSES
            if excess > 0:
                lost = self._samples[:excess]
                self._gaps.append(
                    Gap("samples", lost[0].time_ns, lost[-1].time_ns, "the disk refused", excess)
                )
                del self._samples[:excess]
            raise

    def _write_samples(self) -> None:
        if not self._samples:
            return
        batch = self._samples
        columns: Columns = {
            "source": np.array([self._index[s.source] for s in batch], np.uint16),
            "time_ns": np.array([s.time_ns for s in batch], np.int64),
            "value": np.array([s.value for s in batch], np.float64),
            "span_ns": np.array([min(s.span_ns, 2**31 - 1) for s in batch], np.int32),
        }
        self._writer.write(columns)
        self._samples = []

    def sync(self) -> list[Path]:
        """Sync to disk and rotate; returns closed segments, to be sealed. Raises OSError."""
        self._writer.sync()
        return self._writer.rotate_if_due()

    def close(self) -> list[Path]:
        """Close the open segment, to be sealed. Raises OSError."""
        return self._writer.close()

    def _write_gaps(self) -> None:
        if not self._gaps:
            return
        lines = b"".join(map(gap_line, self._gaps))
        file = open_to_append(self._gaps_path)
        try:
            before = os.fstat(file).st_size
            try:
                content = memoryview(lines)
                while content:
                    content = content[os.write(file, content) :]
            except OSError:
                os.ftruncate(file, before)  # not half a line, and none of them twice
                raise
        finally:
            os.close(file)
        self._gaps = []

    def _write_sources(self) -> None:
        if self._unwritten:
            path = self._folder / "sources.json"
            files.write_json(path, list(self._sources.values()), checked=True)
            self._unwritten = False
