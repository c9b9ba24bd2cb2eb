"""Append-only segments: Arrow IPC (zstd) while hot, Parquet once sealed.

A batch is readable as soon as :meth:`SegmentWriter.write` returned and survives
any kill; after :meth:`sync` it survives power loss. A torn tail is read up to the
tear. Layout and costs: Arrow IPC stream, about 9 bytes and 0.9 µs per row.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..clock import MACHINE_CLOCK, Clock
from . import new_files, segment_checksums
from .sealed_files import Fence, no_fence, write_sealed
from .segment_names import parse
from .segment_reader import read_segment

SAMPLES = pa.schema(
    [
        ("source", pa.uint16()),
        ("time_ns", pa.int64()),
        ("value", pa.float64()),
        ("span_ns", pa.int32()),
    ]
)
EDGES = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("payload", pa.int64()),
        ("sequence", pa.uint32()),
        ("kind", pa.uint8()),
        ("code", pa.uint16()),
    ]
)
LEDGER = pa.schema(
    [("step", pa.int64()), ("code", pa.uint16()), ("count", pa.uint32()), ("time_ns", pa.int64())]
)

ROTATE_BYTES = 16 << 20
ROTATE_SECONDS = 300.0
CLOSED_NS = "phasewatt.closed_ns"  # in the metadata of a sealed segment
Columns = Mapping[str, npt.NDArray[np.generic]]


def write_batch(sink: pa.NativeFile, columns: Columns, schema: pa.Schema) -> None:
    """Write one batch as a complete stream."""
    with _stream(sink, schema) as stream:
        stream.write_batch(_batch(columns, schema))


class SegmentWriter:
    """Writes one table as a series of segments under ``folder``/hot.

    Closed segments are sealed into ``folder``/cold by :func:`seal_segment`, elsewhere:
    rewriting 16 MiB takes a second that the writer's thread does not have.

    After a failed write (no space, directory gone) the torn segment is left as it
    is and the next write opens a new one; the caller keeps what was not written.
    """

    def __init__(self, folder: Path, stem: str, schema: pa.Schema, clock: Clock = MACHINE_CLOCK):
        self._folder, self._hot = folder, folder / "hot"
        self._stem, self._schema, self._clock = stem, schema, clock
        self._number = 0
        self._path: Path | None = None
        self._sink: pa.OSFile | None = None
        self._stream: pa.RecordBatchStreamWriter | None = None
        self._opened = 0.0

    def write(self, columns: Columns) -> None:
        """Append one batch; raises OSError and leaves the writer usable."""
        batch = _batch(columns, self._schema)
        if not batch.num_rows:
            return
        try:
            if self._stream is None:
                self._open()
            assert self._stream is not None and self._path is not None
            checksum = segment_checksums.of_batch(batch, self._path.stem)
            self._stream.write_batch(batch, {segment_checksums.KEY: checksum})
        except (OSError, pa.ArrowException) as error:
            self._abandon()
            raise OSError(getattr(error, "errno", None) or 5, str(error)) from error

    def sync(self) -> None:
        """Sync the open segment to disk. Raises OSError."""
        if self._path is not None:
            _fsync(self._path)

    def rotate_if_due(self) -> list[Path]:
        """Close the open segment once it is old or large enough; its path, to be sealed."""
        if self._sink is None:
            return []
        old = self._clock.monotonic_s() - self._opened > ROTATE_SECONDS
        return self.close() if old or self._sink.tell() > ROTATE_BYTES else []

    def close(self) -> list[Path]:
        """Close the open segment, synced to disk; its path, to be sealed. Raises OSError."""
        if self._stream is None or self._path is None or self._sink is None:
            return []
        path, stream, sink = self._path, self._stream, self._sink
        self._path = self._stream = self._sink = None
        try:
            stream.close()
        except pa.ArrowException as error:
            raise OSError(5, str(error)) from error
        finally:
            sink.close()
        _fsync(path)
        return [path]

    def _open(self) -> None:
        make_folder(self._hot)
        # Never over an existing file: another recorder's, or a rank's that was restarted.
        self._number = max(self._number, self._highest()) + 1
        self._path = self._hot / f"{self._stem}-{self._number:06d}.arrows"
        new_files.open_new(self._path).close()  # never through a link
        self._sink = pa.OSFile(str(self._path), "wb")
        self._stream = _stream(self._sink, self._schema)
        self._opened = self._clock.monotonic_s()

    def _highest(self) -> int:
        """The last number of this writer's name that is in use, also as a part of a segment."""
        highest = 0
        for folder, ending in ((self._hot, ".arrows"), (self._folder / "cold", ".parquet")):
            with contextlib.suppress(FileNotFoundError):
                for file in os.listdir(folder):
                    name = parse(file.removesuffix(ending))
                    if name is not None and name.writer == self._stem:
                        highest = max(highest, name.last)
        return highest

    def _abandon(self) -> None:
        # Not stream.close(): it would try to write again. The file is read up to the tear.
        with contextlib.suppress(Exception):
            if self._sink is not None:
                self._sink.close()
        self._path = self._sink = self._stream = None


def seal_segment(path: Path, closed_ns: int | None = None, fence: Fence = no_fence) -> Path | None:
    """Rewrite a hot segment as Parquet: batch by batch, temporary name, fsync, rename.

    Args:
        path: the segment.
        closed_ns: when it was closed, by its recorder's clock; kept with it, since this is its age.
        fence: called before anything changes.

    Returns:
        None if the segment held nothing; it is removed then.

    Raises:
        OSError: the hot segment then stays and is read in its place.
    """
    cold = path.parent.parent / "cold"
    make_folder(cold)
    target = cold / f"{path.stem}.parquet"
    damaged: list[Path] = []
    batches = read_segment(path, damaged.append)
    first = next(batches, None)
    if damaged:
        raise OSError(5, "it is damaged and stays as it is", str(path))
    if first is None:
        fence()
        path.unlink()
        return None

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield from itertools.chain([first], batches)
        if damaged:
            raise OSError(5, "it is damaged and stays as it is", str(path))

    about = {} if closed_ns is None else {CLOSED_NS: str(closed_ns)}
    write_sealed(target, first.schema, all_batches(), about=about, fence=fence)
    path.unlink()
    return target


def make_folder(folder: Path) -> None:
    """Make a folder two levels below its run. A run that was removed is not made again.

    Raises:
        OSError: FileNotFoundError if the run directory has vanished.
    """
    new_files.make_folder_here(folder.parent)
    new_files.make_folder_here(folder)


def _stream(sink: pa.NativeFile, schema: pa.Schema) -> pa.RecordBatchStreamWriter:
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    return pa.ipc.new_stream(sink, schema, options=options)


def _batch(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.record_batch(arrays, schema=schema)


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
