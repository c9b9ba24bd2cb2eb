"""The segments of one folder: joined when they are many, thinned when they are old.

Everything is done in one way: a new file is written, synced and given a name that covers others
(:mod:`probe.store.segment_names`); from then on those count no more. They are removed some minutes
later, when a reader that listed the folder before has finished with them. So a kill at any moment
leaves every row counted once, and unfinished work is done again.

Joins are of fixed numbers (1–12, 13–24, …; 1–288), so that two recorders that do the same work, one
of which has been replaced and does not know it yet, make the same files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from ...ring.layout import LOADED
from ...store.footers import Footer, read_footer
from ...store.loaded_samples import COUNTS
from ...store.node_files import read_names
from ...store.rollup import WIDTHS, join_rollups, roll_up, rollup_of
from ...store.sealed_files import Fence, write_sealed
from ...store.segment_names import SegmentName, counted, parse
from ...store.segment_reader import read_segment
from ...store.segments import CLOSED_NS, seal_segment
from ...units import NS_PER_S
from .keep import EdgeThinner, Thinner, thin_ledger, thin_samples

DAY_S = 86_400
KEPT_S = {"samples": DAY_S, "edges": DAY_S, "ledger": 7 * DAY_S}
FINE_ROLLUPS_S = 7 * DAY_S  # of one second; wider ones stay
JOINED = (12, 288)  # segments: of an hour, of a day
GRACE_S = 600.0  # how long what counts no more stays: readers may have found it
_MOST_BYTES = 192 << 20  # of a joined segment
_MOST_INFLATED = 512 << 20

Step = tuple[str, Callable[[], object]]
"""What is done, in words, and the doing of it."""


@dataclass(slots=True)
class FolderUpkeep:
    """Looks after the segments of one folder; ``epoch`` is this recorder's fencing number."""

    folder: Path
    epoch: int
    fence: Fence
    _unneeded_since: dict[Path, int] = field(default_factory=dict)
    _hot_since: dict[Path, int] = field(default_factory=dict)
    _footers: dict[Path, Footer | None] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)  # the highest number of each writer

    def steps(self, now_ns: int) -> Iterator[Step]:
        """What is due, in order; each step is to be done before the next is asked for."""
        yield from self._removals(now_ns)
        yield from self._late_seals(now_ns)
        writers = {name.writer for name in self._names("cold/*.parquet").values()}
        names = self._names("cold/*.parquet") | self._names("hot/*.arrows")
        self._last = {}
        for name in names.values():
            self._last[name.writer] = max(name.last, self._last.get(name.writer, 0))
        for writer in sorted(writers):
            due: list[Callable[[list[SegmentName], int], Iterator[Step]]] = [self._thinning]
            due += [partial(self._joins, size=size) for size in JOINED]
            sealed = self._sealed(writer)
            yield from self._fine_rollups(sealed, now_ns)
            for kind in due:
                changed = False
                for step in kind(sealed, now_ns):
                    yield step
                    changed = True
                if changed:
                    sealed = self._sealed(writer)

    # -- what is there ----------------------------------------------------------------

    def _path(self, name: SegmentName) -> Path:
        return self.folder / "cold" / f"{name.stem}.parquet"

    def _names(self, pattern: str) -> dict[Path, SegmentName]:
        parsed = ((path, parse(path.stem)) for path in self.folder.glob(pattern))
        return {path: name for path, name in parsed if name is not None}

    def _sealed(self, writer: str) -> list[SegmentName]:
        """Sealed segments of a writer that count."""
        names = self._names(f"cold/{writer}-*.parquet").values()
        stems = counted(name.stem for name in names if name.writer == writer)
        return [name for name in map(parse, stems) if name is not None]

    def _footer(self, name: SegmentName) -> Footer | None:
        path = self._path(name)
        if path not in self._footers:
            self._footers[path] = read_footer(path)
        return self._footers[path]

    # -- removing ---------------------------------------------------------------------

    def _removals(self, now_ns: int) -> Iterator[Step]:
        names = self._names("cold/*.parquet") | self._names("hot/*.arrows")
        kept = set(counted(name.stem for name in names.values()))
        sealed = {path.stem for path in names if path.suffix == ".parquet"}
        unneeded = {
            path
            for path, name in names.items()
            if name.stem not in kept or (path.suffix != ".parquet" and name.stem in sealed)
        }
        self._unneeded_since = {
            path: self._unneeded_since.get(path, now_ns) for path in sorted(unneeded)
        }
        self._footers = {path: f for path, f in self._footers.items() if path in names}
        rollups = {name.whole_stem for name in map(parse, kept) if name is not None}
        for path, since_ns in self._unneeded_since.items():
            if now_ns - since_ns >= GRACE_S * NS_PER_S:
                yield f"remove {path}", partial(self._remove, path, names[path], rollups)

    def _remove(self, path: Path, name: SegmentName, rollups: set[str]) -> None:
        self.fence()
        path.unlink(missing_ok=True)
        if name.table == "samples" and name.whole_stem not in rollups:
            for label in WIDTHS:
                if label != list(WIDTHS)[-1]:  # those are joined otherwise
                    rollup_of(self.folder / "rollup", label, name.stem).unlink(missing_ok=True)

    # -- sealing ----------------------------------------------------------------------

    def _late_seals(self, now_ns: int) -> Iterator[Step]:
        """Hot segments that nobody seals: of a recorder that died, or whose sealing has failed."""
        waiting = {}
        hot = self._names("hot/*.arrows")
        last: dict[str, int] = {}
        for name in [*hot.values(), *self._names("cold/*.parquet").values()]:
            last[name.writer] = max(name.last, last.get(name.writer, 0))
        for path, name in hot.items():
            over = name.epoch < self.epoch or name.last < last[name.writer]
            if over and path not in self._unneeded_since:
                waiting[path] = self._hot_since.get(path, now_ns)
        self._hot_since = waiting
        for path, since_ns in waiting.items():
            if now_ns - since_ns >= GRACE_S * NS_PER_S:
                yield f"seal {path}", partial(self._seal, path, now_ns)

    def _seal(self, path: Path, now_ns: int) -> None:
        sealed = seal_segment(path, now_ns, self.fence)
        if sealed is not None and path.name.startswith("samples-"):
            roll_up(sealed, self.folder, self.fence)

    # -- thinning ---------------------------------------------------------------------

    def _thinning(self, sealed: list[SegmentName], now_ns: int) -> Iterator[Step]:
        for name in sealed:
            kept_s = KEPT_S.get(name.table)
            footer = None if name.thin or kept_s is None else self._footer(name)
            if kept_s is None or footer is None or footer.closed_ns is None:
                continue
            if now_ns - footer.closed_ns >= kept_s * NS_PER_S:
                yield f"thin {name.stem}", partial(self._thin, name)

    def _thin(self, name: SegmentName) -> None:
        if name.table == "samples":
            self._with_rollups([name])
        self._write(
            SegmentName(name.writer, name.first, name.last, thin=True), [name], self._rules(name)
        )

    def _rules(self, name: SegmentName) -> Thinner:
        if name.table == "samples":
            return thin_samples
        if name.table == "ledger":
            return thin_ledger
        names = read_names(self.folder, name.writer.split("-")[1])
        counts = [code for code, said in names.items() if said in (*COUNTS, LOADED)]
        return EdgeThinner(counts, begins=name.first == 1)

    def _fine_rollups(self, sealed: list[SegmentName], now_ns: int) -> Iterator[Step]:
        for name in sealed:
            path = rollup_of(self.folder / "rollup", next(iter(WIDTHS)), name.stem)
            footer = self._footer(name) if name.table == "samples" and name.thin else None
            if footer is None or footer.closed_ns is None or not path.exists():
                continue
            if now_ns - footer.closed_ns >= FINE_ROLLUPS_S * NS_PER_S:
                yield f"remove {path}", partial(self._remove_rollup, path)

    def _remove_rollup(self, path: Path) -> None:
        self.fence()
        path.unlink(missing_ok=True)

    # -- joining ----------------------------------------------------------------------

    def _joins(self, sealed: list[SegmentName], _now_ns: int, size: int) -> Iterator[Step]:
        groups: dict[int, list[SegmentName]] = {}
        for name in sealed:
            if (name.first - 1) // size == (name.last - 1) // size:
                groups.setdefault((name.first - 1) // size, []).append(name)
        for group, parts in groups.items():
            writer, end = parts[0].writer, (group + 1) * size
            over = self._last[writer] > end or parts[0].epoch < self.epoch
            if len(parts) > 1 and over and self._may_join(parts, size):
                hot = self._names(f"hot/{writer}-*.arrows").items()
                if all(n.first > end or path in self._unneeded_since for path, n in hot):
                    joined = SegmentName(writer, parts[0].first, parts[-1].last, parts[0].thin)
                    yield f"join {joined.stem}", partial(self._join, joined, parts)

    def _may_join(self, parts: list[SegmentName], size: int) -> bool:
        footers = [self._footer(name) for name in parts]
        if any(footer is None for footer in footers) or len({name.thin for name in parts}) > 1:
            return False
        readable = [footer for footer in footers if footer is not None]
        return (
            (size == JOINED[0] or parts[0].thin)  # what will be thinned soon is joined then
            and sum(footer.bytes for footer in readable) <= _MOST_BYTES
            and sum(footer.inflated for footer in readable) <= _MOST_INFLATED
        )

    def _join(self, joined: SegmentName, parts: list[SegmentName]) -> None:
        if joined.table == "samples":
            self._with_rollups(parts)
            folder = self.folder / "rollup"
            join_rollups(folder, [name.stem for name in parts], joined.stem, self.fence)
        self._write(joined, parts, lambda batches: iter(batches))

    def _with_rollups(self, names: list[SegmentName]) -> None:
        """Make rollups that are missing while there is something to make them of."""
        label = next(iter(WIDTHS))
        for name in names:
            if not name.thin and not rollup_of(self.folder / "rollup", label, name.stem).exists():
                roll_up(self._path(name), self.folder, self.fence)

    def _write(self, target: SegmentName, parts: list[SegmentName], rule: Thinner) -> None:
        paths = [self._path(name) for name in parts]
        damaged: list[Path] = []

        def rows() -> Iterator[pa.RecordBatch]:
            for path in paths:
                yield from read_segment(path, damaged.append)
            if damaged:
                raise OSError(5, "it is damaged and stays as it is", str(damaged[0]))

        footers = [footer for name in parts if (footer := self._footer(name)) is not None]
        closed = [f.closed_ns for f in footers if f.closed_ns is not None]
        about = {CLOSED_NS: str(max(closed))} if closed else {}
        write_sealed(
            self._path(target), footers[0].schema, rule(rows()), about=about, fence=self.fence
        )
        with contextlib.suppress(OSError):
            self._footers[self._path(target)] = read_footer(self._path(target))
