"""Runs a training under a bare phase engine and decodes what it wrote."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from probe.instrument import PhaseEngine
from probe.ring.layout import LOADED, TRAINING_THREAD, Code, Record
from probe.ring.reader import RingReader
from probe.ring.writer import RingWriter
from probe.timeline.span_table import SpanTable
from probe.timeline.spans import decode
from tests.fakes import span_sums

_number = itertools.count()


@dataclass
class Watched:
    """The engine while it runs; afterwards what its rings hold."""

    engine: PhaseEngine
    folder: Path
    rows: Any = None
    others: list[Any] = field(default_factory=list)
    threads: list[Any] = field(default_factory=list)  # rows of those that train beside the main one
    names: dict[int, str] = field(default_factory=dict)
    spans: SpanTable = field(default_factory=SpanTable.empty)

    @property
    def steps(self) -> int:
        return int(np.count_nonzero(self.rows["kind"] == Record.STEP))

    @property
    def micros(self) -> list[int]:
        """Backwards of each step."""
        return [int(code) for code in self.rows["code"][self.rows["kind"] == Record.STEP]]

    @property
    def samples(self) -> float:
        """That a loader gave to the steps."""
        code = next((code for code, name in self.names.items() if name == LOADED), -1)
        rows = self.rows[(self.rows["kind"] == Record.VALUE) & (self.rows["code"] == code)]
        return float(rows["payload"].copy().view(np.float64).sum())

    @property
    def counts(self) -> dict[str, int]:
        return {
            self.names.get(code, str(code)): n for code, n in span_sums.counts(self.spans).items()
        }

    def of_all_threads(self, phase: str) -> tuple[int, float]:
        """How often all threads that trained were in a phase, and for how many seconds."""
        code = next(c for c, name in self.names.items() if name == phase)
        tables = [self.spans, *(decode(rows) for rows in self.threads)]
        return (
            sum(span_sums.counts(table).get(code, 0) for table in tables),
            sum(s for t in tables for (_, c), s in span_sums.seconds(t).items() if c == code),
        )

    @property
    def inferred(self) -> int:
        return int(self.spans.inferred.sum())

    def seconds(self, phase: str, *, skip: int = 0) -> float:
        code = next(c for c, name in self.names.items() if name == phase)
        return sum(
            s
            for (step, c), s in span_sums.seconds(self.spans).items()
            if c == code and step >= skip
        )

    def usual_seconds(self, phase: str, *, skip: int = 0) -> float:
        """The median over steps: what else the machine did in one of them is not in it."""
        code = next(c for c, name in self.names.items() if name == phase)
        return float(
            np.median(
                [
                    s
                    for (step, c), s in span_sums.seconds(self.spans).items()
                    if c == code and step >= skip
                ]
            )
        )

    def sequence(self) -> list[str]:
        """Names of the marks in order."""
        marks = self.rows[self.rows["kind"] == Record.MARK]
        provisional = {
            int(Code.PRE): "pre",
            int(Code.TAIL): "tail",
            int(Code.NO_GRAD): "no_grad",
            int(Code.RESUMED): "resumed",
            int(Code.SAVING_ON): "saving_on",
            int(Code.EXHAUSTED): "exhausted",
            int(Code.LOADING): "data",
            int(Code.FIRST_LOADING): "data",
        }
        return [(self.names | provisional)[int(code)] for code in marks["code"]]

    def values(self, name: str) -> list[float]:
        code = next(c for c, n in self.names.items() if n == name)
        rows = self.rows[(self.rows["kind"] == Record.VALUE) & (self.rows["code"] == code)]
        return [float(v) for v in rows["payload"].copy().view(np.float64)]

    def read(self) -> None:
        rings = sorted(self.folder.glob("*.ring"))
        for path in rings:
            reader = RingReader(path, read_only=True)
            rows = reader.read().rows
            if path.stem == "main":
                self.rows, self.names = rows, reader.names()
            elif path.stem.startswith(TRAINING_THREAD):
                self.threads.append(rows)
            else:
                self.others.append(rows)
            reader.close()
        self.spans = decode(self.rows, self.others)


@contextlib.contextmanager
def watched(
    tmp_path: Path,
    model: Any = None,
    optimizer: Any = None,
    *,
    failed: bool = False,
    dither: float | None = None,
    modules: bool = False,
    classify: bool = False,
) -> Iterator[Watched]:
    """Records what happens inside; the books are checked on the way out."""
    folder = tmp_path / f"rings{next(_number)}"
    folder.mkdir()

    def opened(label: str, capacity: int) -> RingWriter:
        return RingWriter(folder / f"{label}.ring", capacity=capacity)

    engine = PhaseEngine(
        opened, model=model, optimizer=optimizer, dither=dither, modules=modules, classify=classify
    )
    watched = Watched(engine, folder)
    engine.install()
    try:
        yield watched
    finally:
        engine.uninstall()
        engine.end(failed, int(failed))
        watched.read()
    marks = watched.rows[np.isin(watched.rows["kind"], (Record.MARK, Record.STEP, Record.END))]
    wall = int(marks["time_ns"][-1]) - int(marks["time_ns"][0])
    spans = watched.spans
    assert int((spans.end_ns - spans.begin_ns).sum()) == wall, "phases do not add up to the wall"
    assert (spans.begin_ns[1:] == spans.end_ns[:-1]).all()
    assert not any("no longer recorded" in line for line in engine.warnings), engine.warnings
