"""The report of a group: what its meters say of all of it, and a report of each training."""

from __future__ import annotations

from pathlib import Path

from ...analysis.carbon_and_price import Tariffs
from ...analysis.group import GroupAnalysis
from ..group_model import GroupInfo, GroupReport, MemberRow
from ..model import Report
from .report import of_group, of_training


def build_group(path: Path, *, tariffs: Tariffs, with_rates: bool = True) -> GroupReport:
    """Read a group. Raises StoreError, StoreVersionError."""
    group = GroupAnalysis(path)
    whole = of_group(group.analysis, tariffs)
    runs = tuple(
        of_training(group.training(number), tariffs, with_rates=with_rates)
        for number in group.readers
    )
    members = tuple(
        _member(number, report, group) for number, report in zip(group.readers, runs, strict=True)
    )
    run = whole.run
    info = GroupInfo(
        id=run.id,
        name=run.name,
        status=run.status,
        ended_by=run.ended_by,
        exit_code=run.exit_code,
        started=run.started,
        ended=run.ended,
        duration_s=run.duration_s,
        host=run.host,
        directory=run.directory,
        scheduler=run.scheduler,
        steps=sum(member.steps for member in members),
        members=members,
        total=whole.total,
        shared=group.shared(),
        rest=group.rest(),
        sources=whole.sources,
        nodes=whole.nodes,
        overhead=whole.overhead,
        recorder=whole.recorder,
        machine=whole.machine,
        carbon=whole.carbon,
        cost=whole.cost,
        absent=whole.absent,
        gaps=whole.gaps,
        warnings=whole.warnings,
    )
    return GroupReport(group=info, runs=runs, final=whole.final)


def _member(number: int, report: Report, group: GroupAnalysis) -> MemberRow:
    run, total = report.run, report.total
    begin_ns = group.time_ns[number][0]
    return MemberRow(
        number=number,
        id=run.id,
        name=run.name,
        process=run.process,
        command=run.command,
        status=run.status,
        ended_by=run.ended_by,
        exit_code=run.exit_code,
        begin_s=(begin_ns - group.analysis.run[0]) / 1e9,
        duration_s=run.duration_s,
        ranks=run.ranks,
        steps=run.steps,
        energy_j=total.energy_j,
        modelled_energy_j=total.modelled_energy_j,
        shared=group.training_shares(number),
    )
