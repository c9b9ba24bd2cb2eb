"""Table IV: throughput and efficiency of both sides by number of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, variance

from scipy import stats

from ...model import Phase, Provenance
from ..groups import Campaign
from ..run_record import Trial
from ..statistics import FEWEST_RUNS, LEVEL
from .both_sides import changed, measured_row, why_no_interval
from .model import NOT_MEASURED, PaperFigures, PaperRow, PaperTable
from .results import Work, throughput_of
from .stated import SCALING

Side = Sequence[Trial]
_Value = Callable[[Trial], float | None]


def of_fewest_ranks(campaign: Campaign) -> Campaign:
    """The runs of both sides on the fewest ranks that both have; all if there is no such number."""
    counts = [{trial.ranks for trial in side.trials} for side in campaign.sides[:2]]
    shared = counts[0] & counts[1]
    if not shared or len(counts[0] | counts[1]) == 1:
        return campaign
    fewest = min(shared)
    sides = [
        replace(side, trials=[trial for trial in side.trials if trial.ranks == fewest])
        for side in campaign.sides[:2]
    ]
    return replace(campaign, sides=sides)


def ranks_table(base: Side, other: Side, work: Work) -> PaperTable:
    """A group of rows for every number of ranks of the runs, and of the paper's."""
    unit, rate = throughput_of(work, [*base, *other])
    fewest = [min(trial.ranks for trial in side) for side in (base, other)]
    first = [_on(side, ranks) for side, ranks in zip((base, other), fewest, strict=True)]
    rows: list[PaperRow] = []
    for ranks in sorted({trial.ranks for trial in (*base, *other)} | SCALING.keys()):
        name = f"{ranks} rank{'s' if ranks > 1 else ''}"
        at = [_on(side, ranks) for side in (base, other)]
        stated = SCALING.get(ranks, (None, None))
        rows.append(
            measured_row(
                f"{name}: throughput", unit, at[0], at[1], rate, _of_images(stated[0], work)
            )
        )
        rows.append(_efficiency(f"{name}: efficiency", first, at, rate, stated[1]))
        if all(at):
            rows += _costs(name, *at)
    return PaperTable("IV", "scaling over ranks (the paper: GPUs, ResNet-50)", rows)


def _of_images(stated: PaperFigures | None, work: Work) -> PaperFigures | None:
    """The paper's Table IV is in img/s, whatever the runs count."""
    if stated is None or work is Work.IMAGES:
        return stated
    return replace(stated, of="img/s")


def _on(side: Side, ranks: int) -> Side:
    return [trial for trial in side if trial.ranks == ranks]


def _costs(name: str, base: Side, other: Side) -> list[PaperRow]:
    unit = base[0].unit.removesuffix("s")

    def joules(trial: Trial) -> float | None:
        total = trial.energy_j if trial.energy is Provenance.MEASURED else None
        return total / trial.samples if total is not None and trial.samples else None

    def waited(trial: Trial) -> float | None:
        share = trial.spent(Phase.COMMUNICATION) / trial.time_s if trial.time_s else 0.0
        return 100 * share if share else None

    rows = [measured_row(f"{name}: energy per {unit}", f"J/{unit}", base, other, joules)]
    if base[0].ranks > 1:
        row = measured_row(f"{name}: communication", "% of time", base, other, waited)
        rows.append(replace(row, ours="inside other phases") if row.ours else row)
    return rows


def _efficiency(
    what: str, first: Sequence[Side], at: Sequence[Side], rate: _Value, paper: PaperFigures | None
) -> PaperRow:
    """Throughput per rank over that of the fewest ranks, in %, of each side.

    The interval is of four independent groups of runs, by their relative errors (Welch).
    """
    row = PaperRow(what=what, unit="%", paper=paper)
    all_rates: list[list[list[float]] | None] = []
    for few, many in zip(first, at, strict=True):
        groups = [[value for trial in side if (value := rate(trial))] for side in (few, many)]
        all_rates.append(groups if all(groups) else None)
    means = [
        None if groups is None else _share(groups, few, many)
        for groups, few, many in zip(all_rates, first, at, strict=True)
    ]
    base, other = means
    if base is None or other is None:
        return replace(row, base=base, other=other, ours=NOT_MEASURED)
    parts = []
    for mean, rates, few, many in zip((base, other), all_rates, first, at, strict=True):
        if few[0].ranks != many[0].ranks:
            parts += [(mean, group) for group in rates or ()]
    half = _half_width(parts)
    interval = (other - base - half, other - base + half) if half else None
    why = None if interval else why_no_interval(*at) if parts else "by definition"
    return changed(row, base, other, interval, why)


def _share(groups: Sequence[Sequence[float]], few: Side, many: Side) -> float:
    if few[0].ranks == many[0].ranks:
        return 100.0
    per_rank = [
        fmean(group) / side[0].ranks for group, side in zip(groups, (few, many), strict=True)
    ]
    return 100 * per_rank[1] / per_rank[0]


def _half_width(parts: Sequence[tuple[float, Sequence[float]]]) -> float | None:
    """Of a difference of two ratios of means, from (ratio, values of one of its means)."""
    if not parts or any(len(values) < FEWEST_RUNS for _, values in parts):
        return None
    errors = [
        (mean / fmean(values)) ** 2 * variance(values) / len(values) for mean, values in parts
    ]
    total = sum(errors)
    if total <= 0:
        return None
    below = sum(
        error**2 / (len(values) - 1) for error, (_, values) in zip(errors, parts, strict=True)
    )
    return float(stats.t.ppf(0.5 + LEVEL / 2, total**2 / below)) * math.sqrt(total)
