"""TensorBoard: ``energy/*`` as scalars of a log directory, beside those of the training."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ._shared.run import ExportRefused, StoredRun, write_whole
from ._shared.scalars import plain, scalars


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

        def write(wall_s: float, **values: Any) -> None:
            writer.write(Event(wall_time=wall_s, **values).SerializeToString())

        def write_scalars(wall_s: float, step: int, values: dict[str, float]) -> None:
            summary = Summary(
                value=[
                    Summary.Value(tag=plain(name), simple_value=value)
                    for name, value in values.items()
                ]
            )
            write(wall_s, step=step, summary=summary)

        write(run.begin_s, file_version="brain.Event:2")
        for row in logged.rows:
            write_scalars(row.wall_s, row.step, dict(row.values))
        last = logged.rows[-1].step if logged.rows else 0
        final = logged.final
        write_scalars(final.wall_s, max(last, final.step), dict(final.values))
        # TensorBoard reads files with tfevents in their name; the same run replaces its own file.
        file = output / f"events.out.tfevents.{int(run.begin_s)}.probe-{plain(run.id)}"
        write_whole(file, content.getvalue())
        return f"{output}: {len(logged.rows)} rows of energy/*, for tensorboard --logdir {output}"


EXPORTER = TensorBoard()
