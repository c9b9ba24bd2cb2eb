"""TensorBoard: ``energy/*`` as scalars of a log directory, beside those of the training."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ._shared.run import ExportRefused, StoredRun, write_whole
from ._shared.scalars import plain, scalars
from ._shared.step_rows import Row


@dataclass(frozen=True, slots=True)
class TensorBoard:
    """Scalars energy/* in a TensorBoard log directory."""

    name: ClassVar[str] = "tensorboard"
    output: ClassVar[str] = "tensorboard/{id}"

    def export(self, run: StoredRun, output: Path) -> str:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            raise ExportRefused("tensorboard is needed: pip install tensorboard") from None
        logged = scalars(run)
        content = io.BytesIO()
        writer = RecordWriter(content)

        def write(event: Event) -> None:
            writer.write(event.SerializeToString())

        def write_row(row: Row) -> None:
            values = [
                Summary.Value(tag=plain(name), simple_value=value)
                for name, value in row.values.items()
            ]
            write(Event(wall_time=row.wall_s, step=row.step, summary=Summary(value=values)))

        write(Event(wall_time=run.begin_s, file_version="brain.Event:2"))
        for row in logged.rows:
            write_row(row)
        last = logged.rows[-1].step if logged.rows else 0
        write_row(replace(logged.final, step=max(last, logged.final.step)))
        # TensorBoard reads files with tfevents in their name; the same run replaces its own file.
        file = output / f"events.out.tfevents.{int(run.begin_s)}.probe-{plain(run.id)}"
        write_whole(file, content.getvalue())
        return f"{output}: {logged.counts}, for tensorboard --logdir {output}"


EXPORTER = TensorBoard()
