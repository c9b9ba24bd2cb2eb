"""One run, opened: what is known of it now, cached until it changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from probe.analysis.open import rates_of
from probe.model import Source
from probe.report.build.report import build
from probe.report.sentences import machine, quality, tariffs
from probe.store.history import History
from probe.store.layout import RUN_FILE
from probe.store.live import Live, LivePage, LivePhase, look_live, read_live
from probe.store.reader import RunReader, read_sources
from probe.store.steps import StepTimes

from ..chart_data import Overview, PhaseRow

Made = TypeVar("Made")
_KEPT = 64  # answers
_SPOKEN_FOR = 0.6  # share of the energy that phases must have before any of them is called largest
_REST = ("unattributed", "unresolved")
_SEEN_S = 0.1  # every chart of every tab asks
_FRESH_S = 0.2  # samples are looked for at most so often, however many tabs ask


@dataclass(frozen=True, slots=True)
class Meter:
    """A source of a node: where its samples lie, and under which index."""

    history: History
    index: int
    source: Source


class OpenRun:
    """Safe to use from many threads; everything it tells is computed once for all of them.

    Raises:
        StoreError: it cannot be read.
    """

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.RLock()
        self._reporting, self._ending = threading.Lock(), threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._reader: RunReader | None = None
        self._report: tuple[object, dict[str, Any]] | None = None
        self._histories: dict[Path, History] = {}
        self._refreshed = -_FRESH_S
        self._steps: StepTimes | None = None
        self._made: OrderedDict[Hashable, tuple[str, object]] = OrderedDict()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._ended: tuple[object, float] | None = None
        self._looked = (-_SEEN_S, "")

    @property
    def reader(self) -> RunReader:
        """Opened again if run.json has changed. Raises StoreError."""
        with self._lock:
            try:
                told = (self.path / RUN_FILE).stat()
                stamp = told.st_mtime_ns, told.st_size
            except OSError:
                stamp = None
            if self._reader is None or stamp is None or stamp != self._stamp:
                self._reader, self._stamp = RunReader(self.path), stamp
            return self._reader

    @property
    def duration_s(self) -> float:
        """So far. (When a killed run ended is found by reading all of its edges.)"""
        with self._ending:
            reader = self.reader
            key = None if self.live else self._stamp
            if key is None or self._ended is None or self._ended[0] != key:
                self._ended = key, max(0.0, (reader.end_ns() - reader.begin_ns) / 1e9)
            return self._ended[1]

    @property
    def live(self) -> bool:
        """Whether it goes on."""
        return str(self.reader.status) == "running"

    def step_times(self) -> StepTimes:
        """Of the first rank."""
        with self._lock:
            if self._steps is None:
                first = min(self.reader.ranks(), default=0)
                self._steps = StepTimes(lambda: self.reader.folders(first))
            return self._steps

    def report(self) -> dict[str, Any]:
        """The report's JSON without ``rates``, of this moment if it goes on. Raises StoreError."""
        with self._reporting:  # long: others must be able to read meanwhile
            reader = self.reader
            key = (self._stamp, str(reader.status))
            if self._report is None or self._report[0] != key:
                self._report = key, build(self.path, with_rates=False)
            return self._report[1]

    def rates(self) -> list[dict[str, Any]]:
        """How busy each phase kept the devices; of a run that is over. Raises StoreError."""
        if self.live:
            return []
        return self.remember("rates", lambda: rates_of(self.path))

    def remember(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, once for everybody who asks until there is something new."""
        seen = self.seen()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            with self._lock:
                known = self._made.get(key)
                if known is not None and known[0] == seen:
                    self._made.move_to_end(key)
                    return cast(Made, known[1])
            made = make()
            with self._lock:
                self._made[key] = seen, made
                while len(self._made) > _KEPT:
                    self._locks.pop(self._made.popitem(last=False)[0], None)
        return made

    def overview(self) -> Overview:
        """From the recorders' live pages while it goes on, else from the report."""
        return self.remember("overview", self._overview)

    def _overview(self) -> Overview:
        reader = self.reader
        if self.live:
            live = read_live(self.path)
            return _waiting(reader) if live is None else _live(reader, live)
        return _reported(self.report())

    def seen(self) -> str:
        """Changes whenever there is something new to show; looked for once for all who ask."""
        with self._lock:
            if time.monotonic() - self._looked[0] >= _SEEN_S:
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
        """All sources of all nodes, their newest samples looked for."""
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
                for index, source in enumerate(read_sources(node))
            ]


def _named(source: Source, node: Path, several: bool) -> Source:
    if not several:
        return source
    return replace(source, device=f"{node.name.removeprefix('node-')}/{source.device}")


def _waiting(reader: RunReader) -> Overview:
    meta = reader.meta
    return Overview(
        id=reader.id,
        name=str(meta.get("name") or ""),
        status=str(reader.status),
        started=str(meta.get("started") or ""),
        host=str(meta.get("host") or ""),
        duration_s=(reader.end_ns() - reader.begin_ns) / 1e9,
        steps=int(meta.get("steps") or 0),
    )


def _live(reader: RunReader, live: Live) -> Overview:
    modelled = [d.energy_j for d in live.devices if d.provenance == "modelled"]
    meta = reader.meta
    values = {
        (value.device, value.quantity): value.value for page in live.pages for value in page.values
    }
    caps = [watts for (_, quantity), watts in values.items() if quantity == "power_limit"]
    return Overview(
        id=reader.id,
        name=str(meta.get("name") or ""),
        status="running",
        started=str(meta.get("started") or ""),
        host=str(meta.get("host") or ""),
        duration_s=(reader.end_ns() - reader.begin_ns) / 1e9,
        steps=max(page.steps for page in live.pages),
        ranks=max(1, int(meta.get("ranks") or 1)),
        energy_j=live.energy_j(),
        modelled_j=sum(modelled) if modelled else None,
        power_w=live.power_w(),
        cap_w=sum(caps) if caps else None,
        phases=tuple(_live_phases(live.pages)),
        warnings=tuple(str(line) for line in meta.get("warnings") or ()),
    )


def _live_phases(pages: Sequence[LivePage]) -> list[PhaseRow]:
    """Joules once the estimator speaks for most of the energy, else the time of each phase."""
    joules = [row for page in pages for row in _joules(page, len(pages) > 1)]
    measured = sum(d.energy_j for page in pages for d in page.devices if d.provenance == "measured")
    told = sum(row.energy_j or 0.0 for row in joules if row.phase not in _REST)
    if measured and told > _SPOKEN_FOR * measured:
        return joules
    return [row for page in pages for row in _seconds(page, len(pages) > 1)]


def _joules(page: LivePage, several: bool) -> list[PhaseRow]:
    """Of every measured device; what no phase has yet is unresolved."""
    prefix = f"{page.node}/" if several else ""
    alone = len({time.rank for time in page.times}) == 1
    times = {time.phase: time for time in page.times} if alone else {}
    rows = []
    for device in page.devices:
        if device.provenance != "measured":
            continue
        rest_j = device.energy_j
        for phase in page.phases:
            if phase.device != device.device or phase.phase in _REST:
                continue
            time_ = times.get(phase.phase)
            rest_j -= phase.energy_j or 0.0
            power = (
                phase.energy_j / time_.seconds
                if (time_ and time_.seconds > 0 and phase.energy_j is not None)
                else None
            )
            rows.append(
                PhaseRow(
                    phase=phase.phase,
                    device=prefix + phase.device,
                    count=time_.count if time_ else None,
                    time_s=time_.seconds if time_ else None,
                    energy_j=phase.energy_j,
                    interval_j=_limits(phase),
                    power_w=power,
                    status=phase.status,
                    device_kind=device.device_kind,
                )
            )
        rows.append(
            PhaseRow(
                phase="unresolved",
                device=prefix + device.device,
                energy_j=max(0.0, rest_j),
                device_kind=device.device_kind,
            )
        )
    return rows


def _limits(phase: LivePhase) -> tuple[float, float] | None:
    if phase.low_j is None or phase.high_j is None:
        return None
    return phase.low_j, phase.high_j


def _seconds(page: LivePage, several: bool) -> list[PhaseRow]:
    """Of the node's first rank."""
    prefix = f"{page.node}/" if several else ""
    first = min((time.rank for time in page.times), default=0)
    return [
        PhaseRow(
            phase=time.phase,
            device=f"{prefix}rank {first}",
            count=time.count,
            time_s=time.seconds,
            provenance="measured",
        )
        for time in page.times
        if time.rank == first
    ]


def _reported(report: Mapping[str, Any]) -> Overview:
    run, total, cost = report["run"], report["total"], report.get("cost")
    values = report["values"]
    logged = {
        name: values[name]["sum"]
        for name in ("samples", "tokens")
        if values.get(name, {}).get("sum")
    }
    joules, price = total["energy_j"], total["cost"]
    said = tariffs(dict(report))
    kinds = {row["device"]: row.get("device_kind", "") for row in report["sources"]}
    return Overview(
        id=run["id"],
        name=run["name"],
        status=run["status"],
        ended_by=run["ended_by"],
        started=run["started"],
        host=run["host"],
        duration_s=run["duration_s"],
        steps=run["steps"],
        ranks=run["ranks"],
        energy_j=joules,
        interval_j=_pair(total["energy_j_interval"]),
        modelled_j=total["modelled_energy_j"],
        power_w=joules / run["duration_s"] if joules is not None and run["duration_s"] else None,
        co2e_g=total["co2e_g"],
        modelled_co2e_g=total["modelled_co2e_g"],
        cost=f"{price:.4g} {cost['currency']}".strip() if cost and price is not None else "",
        carbon="; ".join(said),
        coverage=total["coverage"],
        logged=logged,
        phases=tuple(_row(row, kinds.get(row["device"], "")) for row in report["phases"]),
        sources=tuple(report["sources"]),
        absent=tuple(report["absent"]),
        quality=tuple(quality(dict(report))),
        machine=tuple(machine(dict(report))),
        warnings=tuple(report["warnings"]),
    )


def _row(row: Mapping[str, Any], device_kind: str) -> PhaseRow:
    return PhaseRow(
        phase=row["phase"],
        device=row["device"],
        count=row["count"],
        time_s=row["time_s"],
        energy_j=row["energy_j"],
        interval_j=_pair(row["energy_j_interval"]),
        bounds_j=_pair(row["bounds_j"]),
        power_w=row["power_w"],
        status=row["status"],
        provenance=row["provenance"],
        device_kind=device_kind,
    )


def _pair(pair: Sequence[float] | None) -> tuple[float, float] | None:
    return None if pair is None else (float(pair[0]), float(pair[1]))
