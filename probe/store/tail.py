"""What was appended to hot segments since the last look: only what is new is read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from . import untrusted
from .segment_reader import MOST_BYTES, UNREADABLE


class Tail:
    """Follows one hot segment while its recorder writes it; a torn batch is read when whole."""

    def __init__(self, path: Path):
        self.path = path
        self._schema: pa.Schema | None = None
        self._offset = 0

    def new(self) -> list[pa.RecordBatch]:
        """Whole batches that came since the last call; none if the file has vanished."""
        batches: list[pa.RecordBatch] = []
        try:
            with (
                untrusted.opened(self.path, MOST_BYTES) as file,
                pa.PythonFile(file, mode="r") as source,
            ):
                source.seek(self._offset)
                while (batch := self._next(source)) is not None:
                    batches.append(batch)
        except (EOFError, *UNREADABLE):
            pass  # gone, torn, or ended: what was whole stands
        return batches

    def _next(self, source: pa.NativeFile) -> pa.RecordBatch | None:
        while source.tell() < source.size():
            message = pa.ipc.read_message(source)
            if message.type == "schema":
                self._schema = pa.ipc.read_schema(message)
            elif message.type == "record batch" and self._schema is not None:
                batch = pa.ipc.read_record_batch(message, self._schema)
                self._offset = source.tell()
                return batch
            self._offset = source.tell()
        return None
