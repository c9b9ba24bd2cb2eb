"""An hour of a recorded run, repeated on shifted clocks as often as a month has hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probe.recorder.upkeep.folder import KEPT_S, FolderUpkeep
from probe.recorder.upkeep.upkeep import Upkeep
from probe.ring.layout import Record
from probe.store import layout, rollup
from probe.store.rollup import WIDTHS, rollup_of
from probe.store.sealed_files import no_fence, write_sealed
from probe.store.segment_names import SegmentName
from probe.store.segments import CLOSED_NS
from tests.fakes.stored_run import NS

from .recorded_hours import BEGIN_NS, HOUR_S, Recording

PER_HOUR = 12  # segments
WIDEST = list(WIDTHS)[-1]


class Month:
    """The store of a run, hour by hour."""

    def __init__(
        self,
        recording: Recording,
        hours: int,
        templates: Path,
        steps: list[int],
        records: list[int],
    ):
        """Take the second of the recorded hours as the template.

        Args:
            hours: of the whole month.
            templates: an empty folder.
            steps: of each rank in an hour.
            records: of each rank's ring in an hour.
        """
        self.recording, self.hours = recording, hours
        self._steps, self._records, self._templates = steps, records, templates
        self._upkeep = Upkeep(recording.run, 1, no_fence)
        ranks = [layout.rank_dir(recording.run, m.rank) for m in recording.members]
        self._tables = [(recording.node, "samples", "samples-1", 0)]
        self._tables += [
            (folder, table, f"{table}-main0-1", rank)
            for rank, folder in enumerate(ranks)
            for table in ("edges", "ledger")
        ]
        self.tidy(2)
        self._rollups = self._take_templates()

    def tidy(self, hour: int) -> None:
        """What the sealer's thread does some minutes after an hour has ended, and later again."""
        failed: list[str] = []
        for minutes in (6, 12, 24):
            self._upkeep.tidy(BEGIN_NS + (hour * 60 + minutes) * 60 * NS, failed.append)
        if failed:
            raise SystemExit("\n".join(failed))

    def _take_templates(self) -> dict[str, pa.Table]:
        name = SegmentName("", PER_HOUR + 1, 2 * PER_HOUR)
        for folder, table, writer, rank in self._tables:
            joined = SegmentName(writer, name.first, name.last)
            path = folder / "cold" / f"{joined.stem}.parquet"
            whole = pq.read_table(path)
            pq.write_table(whole, self._path(table, rank, thin=False))
            rules = FolderUpkeep(folder, 1, no_fence)._rules(joined)
            thin = pa.Table.from_batches(list(rules(whole.to_batches(1 << 17))))
            pq.write_table(thin, self._path(table, rank, thin=True))
        folder = self.recording.node / "rollup"
        stem = SegmentName("samples-1", name.first, name.last).stem
        rollups = {
            label: pq.read_table(rollup_of(folder, label, stem))
            for label in WIDTHS
            if label != WIDEST
        }
        pieces = [
            pq.read_table(rollup_of(folder, WIDEST, f"samples-1-{number:06d}"))
            for number in range(name.first, name.last + 1)
        ]
        return rollups | {WIDEST: pa.concat_tables(pieces)}

    def _path(self, table: str, rank: int, *, thin: bool) -> Path:
        return self._templates / f"{table}-{rank}{'-thin' if thin else ''}.parquet"

    def add(self, hour: int) -> None:
        """Write one more hour (from 0), thinned if it will be long before the month's end."""
        more = hour - 1
        left_s = (self.hours - hour - 1) * HOUR_S
        about = {CLOSED_NS: str(BEGIN_NS + (hour + 1) * HOUR_S * NS)}
        first, last = hour * PER_HOUR + 1, (hour + 1) * PER_HOUR
        for folder, table, writer, rank in self._tables:
            thin = left_s >= KEPT_S[table] + 2 * HOUR_S
            rows = pq.read_table(self._path(table, rank, thin=thin))
            steps, records = more * self._steps[rank], more * self._records[rank]
            moved = shifted(rows, table, more * HOUR_S * NS, steps, records)
            target = folder / "cold" / f"{SegmentName(writer, first, last, thin).stem}.parquet"
            write_sealed(target, moved.schema, moved.to_batches(1 << 16), about=about)
        for label, rows in self._rollups.items():
            self._roll_up(label, plus(rows, ("begin_ns", "last_ns"), more * HOUR_S * NS), hour)

    def _roll_up(self, label: str, rows: pa.Table, hour: int) -> None:
        folder = self.recording.node / "rollup"
        first = hour * PER_HOUR + 1
        if label != WIDEST:
            stem = SegmentName("samples-1", first, first + PER_HOUR - 1).stem
            path = rollup_of(folder, label, stem)
            write_sealed(path, rows.schema, rows.to_batches(1 << 16), sync=False)
            return
        # One per segment, until they are many.
        part = (rows["begin_ns"].to_numpy() - BEGIN_NS) // (HOUR_S * NS // PER_HOUR) + 1
        for number in range(first, first + PER_HOUR):
            piece = rows.filter(pa.array(part == number))
            path = rollup_of(folder, label, f"samples-1-{number:06d}")
            write_sealed(path, piece.schema, piece.to_batches(), sync=False)
        rollup._join(folder, label)

    def size(self) -> tuple[int, int]:
        """(files, bytes) of the run."""
        files = [path for path in self.recording.run.rglob("*") if path.is_file()]
        return len(files), sum(path.stat().st_size for path in files)


def shifted(rows: pa.Table, table: str, by_ns: int, steps: int, records: int) -> pa.Table:
    """An hour's table, so much later."""
    if table == "ledger":
        return plus(rows, ("step",), steps)
    rows = plus(rows, ("time_ns",), by_ns)
    if table == "edges":
        rows = plus(rows, ("sequence",), records)
        rows = plus(rows, ("payload",), np.where(rows["kind"].to_numpy() == Record.STEP, steps, 0))
    return rows


def plus(rows: pa.Table, names: tuple[str, ...], more: Any) -> pa.Table:
    """Columns with something added to them."""
    for name in names:
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(place)
        values = rows[name].to_numpy().astype(np.int64) + more
        values = values.astype(field.type.to_pandas_dtype())  # sequences begin again at 2³²
        rows = rows.set_column(place, field, pa.array(values))
    return rows
