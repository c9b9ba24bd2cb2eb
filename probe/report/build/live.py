"""The report of a run that still goes on, from its recorders' live pages: no sample is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from ...analysis.carbon_and_price import Tariffs
from ...analysis.totals import worth_so_far
from ...model import Phase, Provenance, Status
from ...simulated_card import is_simulated
from ...store.live import Live, LiveDevice, LiveMemory, LivePage, LivePhase
from ...store.reader import RunReader
from ...store.run_fields import scheduler_of
from ...units import J_PER_KWH, NS_PER_S
from ..model import (
    CarbonIntensity,
    EnergyPrice,
    GapCounts,
    MemoryRow,
    PhaseRow,
    PowerRow,
    RateRow,
    Report,
    RunInfo,
    SourceRow,
    Totals,
)
from .empty import NO_OVERHEAD
from .phase_shares import with_shares
from .phase_usage import with_activity, with_memory

_ENOUGH = 0.6  # share of the energy that phases must have before any of them has joules
_REST = (Phase.UNATTRIBUTED, Phase.UNRESOLVED)


def live_report(reader: RunReader, live: Live | None, tariffs: Tariffs | None = None) -> Report:
    """What is known now; ``final`` is False. The last bin of ``power`` is the power now.

    Args:
        live: the newest pages; None: there is none yet, and only run.json is known.
        tariffs: what a kWh emits and costs; None: as the environment says. Of one that changes its
            mean over the run counts.
    """
    meta = reader.meta
    duration_s = max(0.0, (reader.end_ns() - reader.begin_ns) / NS_PER_S)
    pages = () if live is None else live.pages
    run = RunInfo(
        id=reader.id,
        name=str(meta.get("name") or ""),
        status=str(reader.status),
        started=str(meta.get("started") or ""),
        ended=_after(str(meta.get("started") or ""), duration_s),
        duration_s=duration_s,
        host=str(meta.get("host") or ""),
        python=str(meta.get("python") or ""),
        ranks=max(1, int(meta.get("ranks") or 1)),
        steps=max((page.steps for page in pages), default=int(meta.get("steps") or 0)),
        config=meta.get("config"),
        directory=str(reader.path),
        scheduler=scheduler_of(meta),
        simulated=bool(meta.get("simulated")),
    )
    carbon, price = worth_so_far(reader, Tariffs.given() if tariffs is None else tariffs)
    devices = () if live is None else live.devices
    memory = tuple(
        _memory_row(row, f"{page.node}/" if len(pages) > 1 else "")
        for page in pages
        for row in page.memory
    )
    rates, rank_of = tuple(_rates(pages)), _rank_of(pages)
    phases = with_memory(list(_phases(pages)), memory, rank_of)
    return Report(
        run=run,
        total=_totals(live, carbon, price),
        sources=tuple(_source(device) for device in devices),
        phases=with_shares(with_activity(phases, rates, rank_of)),
        rates=rates,
        memory=memory,
        power=tuple(_power(device, duration_s) for device in devices),
        overhead=NO_OVERHEAD,
        carbon=carbon,
        cost=price,
        gaps=GapCounts(
            count=sum(page.gaps for page in pages),
            edges_lost=sum(page.edges_lost for page in pages),
        ),
        warnings=tuple(str(line) for line in meta.get("warnings") or ()),
        final=False,
    )


def _rank_of(pages: Sequence[LivePage]) -> dict[str, int]:
    """The rank whose phases a device's rows are: that of a page with one rank."""
    rank_of: dict[str, int] = {}
    for page in pages:
        prefix = f"{page.node}/" if len(pages) > 1 else ""
        ranks = {time.rank for time in page.times}
        rank_of |= {f"{prefix}rank{rank}": rank for rank in ranks}
        if len(ranks) == 1:
            names = ["host", *(device.device for device in page.devices)]
            rank_of |= {prefix + name: next(iter(ranks)) for name in names}
    return rank_of


def _memory_row(row: LiveMemory, prefix: str) -> MemoryRow:
    return MemoryRow(
        rank=row.rank,
        device=row.device if row.device.startswith("rank") else prefix + row.device,
        quantity=row.quantity,
        source=row.source,
        phase=row.phase,
        mean_bytes=row.mean_bytes,
        peak_bytes=row.peak_bytes,
        peak_at_most_bytes=row.peak_at_most_bytes,
    )


def _rates(pages: Sequence[LivePage]) -> Iterator[RateRow]:
    for page in pages:
        seconds = {(time.rank, time.phase): time.seconds for time in page.times}
        ranks = {time.rank for time in page.times}
        for row in page.rates:
            of_rank = row.device.startswith("rank")  # numbered over all hosts
            rank = int(row.device[4:]) if of_rank else min(ranks, default=0)
            prefix = f"{page.node}/" if len(pages) > 1 and not of_rank else ""
            yield RateRow(
                device=prefix + row.device,
                quantity=row.quantity,
                source=row.source,
                phase=row.phase,
                time_s=seconds.get((rank, row.phase), 0.0),
                value=row.value,
                interval=(row.low, row.high),
                status=Status(row.status),
                provenance=Provenance.ESTIMATED,
            )


def _after(started: str, seconds: float) -> str:
    try:
        return (datetime.fromisoformat(started) + timedelta(seconds=seconds)).isoformat()
    except ValueError:
        return ""


def _totals(live: Live | None, carbon: CarbonIntensity | None, price: EnergyPrice | None) -> Totals:
    if live is None:
        return Totals()
    measured_j, modelled_j = live.energy_j(), live.modelled_energy_j()

    def grams(joules: float | None) -> float | None:
        if carbon is None or joules is None:
            return None
        return joules / J_PER_KWH * carbon.g_per_kwh

    def cost(joules: float | None) -> float | None:
        if price is None or joules is None:
            return None
        return joules / J_PER_KWH * price.per_kwh

    return Totals(
        energy_j=measured_j,
        co2e_g=grams(measured_j),
        modelled_energy_j=modelled_j,
        modelled_co2e_g=grams(modelled_j),
        cost=cost(measured_j),
        modelled_cost=cost(modelled_j),
    )


def _source(device: LiveDevice) -> SourceRow:
    provenance = Provenance(device.provenance)
    return SourceRow(
        source=device.source,
        device=device.device,
        uuid=device.uuid,
        method="",
        provenance=provenance,
        in_total=provenance is Provenance.MEASURED,
        energy_j=device.energy_j,
        gaps=0,
        period_s=None,
        device_kind=device.device_kind,
        simulated=is_simulated(device.uuid),
    )


def _power(device: LiveDevice, now_s: float) -> PowerRow:
    return PowerRow(
        device=device.device,
        source=device.source,
        provenance=Provenance(device.provenance),
        begin_s=max(0.0, now_s - 1.0),
        step_s=1.0,
        power_w=(device.power_w,),
    )


def _phases(pages: Sequence[LivePage]) -> Iterator[PhaseRow]:
    """Joules once the phases have most of the energy; until then the time of each phase."""
    several = len(pages) > 1
    rows = [row for page in pages for row in _joules(page, several)]
    measured_j = sum(d.energy_j for page in pages for d in page.devices if _is_measured(d))
    known_j = sum(row.energy_j or 0.0 for row in rows if row.phase not in _REST)
    if measured_j and known_j > _ENOUGH * measured_j:
        yield from rows
        return
    for page in pages:
        yield from _seconds(page, several)


def _is_measured(device: LiveDevice) -> bool:
    return device.provenance == Provenance.MEASURED


def _joules(page: LivePage, several: bool) -> Iterator[PhaseRow]:
    """Joules of the phases of every measured device; the rest is ``unresolved``."""
    prefix = f"{page.node}/" if several else ""
    alone = len({time.rank for time in page.times}) == 1
    times = {time.phase: time for time in page.times} if alone else {}
    for device in page.devices:
        if not _is_measured(device):
            continue
        rest_j = device.energy_j
        refused = dict(times)  # phases that no estimate has told apart yet
        for phase in page.phases:
            if phase.device != device.device or phase.phase in _REST:
                continue
            time = times.get(phase.phase)
            refused.pop(phase.phase, None)
            rest_j -= phase.energy_j or 0.0
            seconds = time.seconds if time else 0.0
            yield _row(
                phase.phase,
                prefix + phase.device,
                seconds=seconds,
                count=time.count if time else 0,
                energy_j=phase.energy_j,
                interval=_limits(phase),
                status=Status(phase.status),
            )
        for name, time in refused.items():
            yield _row(name, prefix + device.device, seconds=time.seconds, count=time.count)
        yield _row("unresolved", prefix + device.device, energy_j=max(0.0, rest_j))


def _limits(phase: LivePhase) -> tuple[float, float] | None:
    if phase.low_j is None or phase.high_j is None:
        return None
    return phase.low_j, phase.high_j


def _seconds(page: LivePage, several: bool) -> Iterator[PhaseRow]:
    """Time in the phases of the node's ranks."""
    prefix = f"{page.node}/" if several else ""
    alone = len({time.rank for time in page.times}) == 1 and not several
    for time in page.times:
        device = "host" if alone else f"{prefix}rank{time.rank}"
        yield _row(time.phase, device, seconds=time.seconds, count=time.count)


def _row(
    phase: str,
    device: str,
    *,
    seconds: float = 0.0,
    count: int = 0,
    energy_j: float | None = None,
    interval: tuple[float, float] | None = None,
    status: Status = Status.NOT_IDENTIFIABLE,
) -> PhaseRow:
    return PhaseRow(
        phase=phase,
        device=device,
        count=count,
        time_s=seconds,
        energy_j=energy_j,
        energy_j_interval=interval,
        power_w=energy_j / seconds if energy_j is not None and seconds > 0 else None,
        status=status,
        bounds_j=None,
        provenance=Provenance.MEASURED if energy_j is None else Provenance.ESTIMATED,
    )
