"""One open run: what is known of it now, cached until it changes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from probe.analysis.open import rates_of
from probe.compare.advise import Advice, memory_of, of_report
from probe.model import Source
from probe.report.build.live import live_report
from probe.report.build.report import build
from probe.report.model import RateRow, Report
from probe.store.history import History
from probe.store.layout import RUN_FILE
from probe.store.live import look_live, read_live
from probe.store.node_files import read_sources
from probe.store.reader import RunReader
from probe.store.steps import StepTimes
from probe.store.trainings import numbers

from ..chart_data import Floats, Origin
from .cache import Cache, cached
from .logged_values import Ints, LoggedValues

_LOOK_S = 0.1  # every chart of every tab asks whether there is something new
_FRESH_S = 0.2  # new samples are looked for at most so often, for all tabs together


@dataclass(frozen=True, slots=True)
class Meter:
    """A source of a node, with the history that holds its samples and its index there."""

    history: History
    index: int
    source: Source


class OpenRun:
    """A run whose figures are computed once for all tabs. Safe to use from many threads.

    Raises:
        StoreError: it cannot be read.
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.RLock()
        self._reporting, self._ending = threading.Lock(), threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._reader: RunReader | None = None
        self._report: tuple[object, Report] | None = None
        self._histories: dict[Path, History] = {}
        self._sources: dict[Path, tuple[tuple[int, ...], list[Source]]] = {}
        self._refreshed = -_FRESH_S
        self._steps: StepTimes | None = None
        self._logged: dict[int, LoggedValues] = {}
        self.cache = Cache()
        self._ended: tuple[object, float] | None = None
        self._looked = (-_LOOK_S, "")

    @property
    def reader(self) -> RunReader:
        """Opened again if run.json has changed. Raises StoreError."""
        with self._lock:
            try:
                file = (self.path / RUN_FILE).stat()
                stamp = file.st_mtime_ns, file.st_size
            except OSError:
                stamp = None
            if self._reader is None or stamp is None or stamp != self._stamp:
                self._reader, self._stamp = RunReader(self.path), stamp
            return self._reader

    @property
    def duration_s(self) -> float:
        """Seconds so far; the end of a killed run is found by reading all of its edges."""
        with self._ending:
            reader = self.reader
            key = None if self.live else self._stamp
            if key is None or self._ended is None or self._ended[0] != key:
                self._ended = key, max(0.0, (reader.end_ns() - reader.begin_ns) / 1e9)
            return self._ended[1]

    @property
    def live(self) -> bool:
        """True while the run goes on."""
        return str(self.reader.status) == "running"

    def step_times(self) -> StepTimes:
        """Step times of the first rank."""
        with self._lock:
            if self._steps is None:
                first = min(self.reader.ranks(), default=0)
                self._steps = StepTimes(lambda: self.reader.folders(first))
            return self._steps

    def logged_values(self, rank: int) -> dict[str, tuple[Ints, Floats]]:
        """What a rank logged: name → (ns, value)."""
        with self._lock:
            values = self._logged.setdefault(rank, LoggedValues(rank))
        return values.read(self.reader)

    def report(self) -> Report:
        """The report without ``rates``; of a live run, as of now. Raises StoreError."""
        with self._reporting:  # building takes long: its own lock lets other threads read meanwhile
            reader = self.reader
            key = (self._stamp, str(reader.status))
            if self._report is None or self._report[0] != key:
                self._report = key, build(self.path, with_rates=False)
            return self._report[1]

    @cached
    def rates(self) -> list[RateRow]:
        """How busy each phase kept the devices; empty for a live run. Raises StoreError."""
        if self.live:
            return []
        return rates_of(self.path)

    @cached
    def report_now(self) -> Report:
        """The report: from the recorders' live pages while the run goes on."""
        reader = self.reader
        report = live_report(reader, read_live(self.path)) if self.live else self.report()
        if not reader.is_group:
            return report
        several = len(numbers(self.path))
        line = f"a group of {several} trainings: the list of runs leads to the phases of each"
        return replace(report, warnings=(line, *report.warnings))

    @cached
    def advice(self) -> Advice:
        """What to try next. Raises StoreError."""
        report = self.report_now()
        if self.live:
            return of_report(report)
        return of_report(replace(report, rates=tuple(self.rates())), *memory_of(self.path))

    def origin(self) -> Origin:
        """What the run was started with. Raises StoreError."""
        meta = self.reader.meta
        code, environment = meta.get("code"), meta.get("environment")
        config, command = meta.get("config"), meta.get("command")
        return Origin(
            command=[str(word) for word in command] if isinstance(command, list) else [],
            directory=str(self.path),
            config=config if isinstance(config, dict) else {},
            code=_texts(code),
            environment=_texts(environment),
        )

    def power_limit_w(self) -> float | None:
        """The power limits of a live run's devices together."""
        live = read_live(self.path) if self.live else None
        return None if live is None else live.power_limit_w()

    def newest(self) -> str:
        """A string that changes whenever there is something new; looked up once for all tabs."""
        with self._lock:
            if time.monotonic() - self._looked[0] >= _LOOK_S:
                self._looked = time.monotonic(), self._look()
            return self._looked[1]

    def _look(self) -> str:
        reader = self.reader
        if not self.live:
            return f"{reader.status} {self._stamp}"
        live = look_live(self.path)
        self.meters()
        newest = max((h.newest_ns() or 0 for h in self._histories.values()), default=0)
        return f"running {live.time_ns if live else 0} {newest}"

    def meters(self) -> list[Meter]:
        """All sources of all nodes, their histories up to date."""
        with self._lock:
            reader = self.reader
            nodes = reader.nodes()
            for node in nodes:
                ahead_ns = reader.ahead_of(node)
                if node not in self._histories or self._histories[node].ahead_ns != ahead_ns:
                    self._histories[node] = History(node, ahead_ns)
            if time.monotonic() - self._refreshed >= _FRESH_S:
                for history in self._histories.values():
                    history.refresh()
                self._refreshed = time.monotonic()
            several = len(nodes) > 1
            return [
                Meter(self._histories[node], index, _named(source, node, several))
                for node in nodes
                for index, source in enumerate(self._sources_of(node))
            ]

    def _sources_of(self, node: Path) -> list[Source]:
        """Read again when the file has changed; under the lock."""
        try:
            file = (node / "sources.json").stat()
        except OSError:
            return read_sources(node)
        stamp = file.st_mtime_ns, file.st_size, file.st_ino
        cached = self._sources.get(node)
        if cached is None or cached[0] != stamp:
            cached = self._sources[node] = stamp, list(read_sources(node))
        return cached[1]


def _texts(fields: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in fields.items()} if isinstance(fields, dict) else {}


def _named(source: Source, node: Path, several: bool) -> Source:
    if not several:
        return source
    return replace(source, device=f"{node.name.removeprefix('node-')}/{source.device}")
