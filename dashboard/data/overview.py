"""A run at a glance, from its report, its live pages, or run.json alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from probe.report.model import Report
from probe.report.sentences import machine, quality, tariffs
from probe.store.live import Live, LivePage, LivePhase
from probe.store.reader import RunReader

from ..chart_data import Overview, PhaseRow

_KNOWN_SHARE = 0.6  # share of the energy that phases must have before any of them is called largest
_REST = ("unattributed", "unresolved")


def of_run_file(reader: RunReader) -> Overview:
    """The overview of a live run without a live page yet."""
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


def of_live_page(reader: RunReader, live: Live) -> Overview:
    """The overview of a live run, from its newest live pages."""
    meta = reader.meta
    values = {
        (value.device, value.quantity): value.value for page in live.pages for value in page.values
    }
    caps = [watts for (_, quantity), watts in values.items() if quantity == "power_limit"]
    return replace(
        of_run_file(reader),
        status="running",
        steps=max(page.steps for page in live.pages),
        ranks=max(1, int(meta.get("ranks") or 1)),
        energy_j=live.energy_j(),
        modelled_j=modelled_j(live),
        power_w=live.power_w(),
        cap_w=sum(caps) if caps else None,
        phases=tuple(_live_phases(live.pages)),
        warnings=tuple(str(line) for line in meta.get("warnings") or ()),
    )


def modelled_j(live: Live) -> float | None:
    """Joules of the devices that only have a model; None without any."""
    joules = [d.energy_j for d in live.devices if d.provenance == "modelled"]
    return sum(joules) if joules else None


def _live_phases(pages: Sequence[LivePage]) -> list[PhaseRow]:
    """Joules once phases have most of the energy, else the time of each phase."""
    joules = [row for page in pages for row in _joules(page, len(pages) > 1)]
    measured = sum(d.energy_j for page in pages for d in page.devices if d.provenance == "measured")
    known_j = sum(row.energy_j or 0.0 for row in joules if row.phase not in _REST)
    if measured and known_j > _KNOWN_SHARE * measured:
        return joules
    return [row for page in pages for row in _seconds(page, len(pages) > 1)]


def _joules(page: LivePage, several: bool) -> list[PhaseRow]:
    """Joules of the phases of every measured device; the rest is ``unresolved``."""
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
    """Time in the phases of the node's first rank."""
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


def of_report(report: Report) -> Overview:
    """The overview of a finished run, from its report."""
    run, total, price = report.run, report.total, report.cost
    logged = {
        name: value.sum
        for name, value in report.values.items()
        if name in ("samples", "tokens") and value.sum
    }
    joules = total.energy_j
    kinds = {row.device: row.device_kind for row in report.sources}
    phases = tuple(
        PhaseRow(
            phase=row.phase,
            device=row.device,
            count=row.count,
            time_s=row.time_s,
            energy_j=row.energy_j,
            interval_j=row.energy_j_interval,
            bounds_j=row.bounds_j,
            power_w=row.power_w,
            status=row.status,
            provenance=row.provenance,
            device_kind=kinds.get(row.device, ""),
        )
        for row in report.phases
    )
    return Overview(
        id=run.id,
        name=run.name,
        status=run.status,
        ended_by=run.ended_by,
        started=run.started,
        host=run.host,
        duration_s=run.duration_s,
        steps=run.steps,
        ranks=run.ranks,
        energy_j=joules,
        interval_j=total.energy_j_interval,
        modelled_j=total.modelled_energy_j,
        power_w=joules / run.duration_s if joules is not None and run.duration_s else None,
        co2e_g=total.co2e_g,
        modelled_co2e_g=total.modelled_co2e_g,
        cost=f"{total.cost:.4g} {price.currency}".strip()
        if price and total.cost is not None
        else "",
        carbon="; ".join(tariffs(report)),
        coverage=total.coverage,
        logged=logged,
        phases=phases,
        sources=report.sources,
        absent=report.absent,
        quality=tuple(quality(report)),
        machine=tuple(machine(report)),
        warnings=report.warnings,
    )
