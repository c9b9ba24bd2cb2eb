"""The tables of *Systematic Training Compute Optimization*, from the user's own runs.

    tables.tables      the runs, read as `probe compare` reads them
      results          Table I (images) or II (text), and what the paper lacks: energy, EDP, CO2e
      components       Table III, from the JSON of `probe ablate --design cumulative`
      ranks            Table IV
      gains            error analysis by phase; equations (21) to (23)
      patterns         by kind of module
    stated             the paper's figures, as it prints them
    text               all of it for a terminal and as Markdown

The paper's figure is beside each where it states one, never instead of it: what the runs did not
measure is "not measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import TOLERANCE
from ..groups import Campaign
from ..model import Comparison, ComparisonReport
from ..run_record import Trial
from .ablation_steps import AblationStep, read_steps
from .components import components_table
from .gains import doubling_table, phases_table
from .model import BothSettings, KeptMemoryRow, PaperTable, PaperTables, PeakMemoryRow
from .patterns import patterns_table
from .ranks import of_fewest_ranks, ranks_table
from .results import costs_table, is_of_paper, results_table, works_of
from .stated import HARDWARE, MONTHS

_THROUGHPUT = 2  # row of a table of results


def tables(
    base: str,
    other: str,
    *,
    directory: str | Path | None = None,
    target: str | None = None,
    also: tuple[str, str] | None = None,
    table: str | None = None,
    ablation: str | Path | None = None,
    months: float = MONTHS,
) -> PaperTables:
    """All tables.

    Args:
        base, other: as of :func:`probe.compare.compare`.
        also: base and other of another model, for the other one of Tables I and II and for its
            architecture patterns.
        table: "I" or "II", whichever the runs are; by default decided by what they recorded.
        ablation: a folder of ``probe ablate``, for Table III.
        months: over which the gain was made, for the doubling time.

    Raises:
        UsageError, StoreError: as :func:`probe.compare.compare`; the ablation has no result.
    """
    campaign = Campaign.of(base, [other], directory=directory, target=target)
    steps = None if ablation is None else read_steps(ablation)
    second = None if also is None else Campaign.of(also[0], [also[1]], directory=directory)
    return of_campaign(campaign, steps, months, table=table, also=second)


def of_campaign(
    campaign: Campaign,
    steps: Sequence[AblationStep] | None = None,
    months: float = MONTHS,
    *,
    table: str | None = None,
    also: Campaign | None = None,
) -> PaperTables:
    """From runs that were read, and the steps of an ablation. Raises UsageError."""
    alike = of_fewest_ranks(campaign)
    report = alike.compared(TOLERANCE)
    comparison = report.comparisons[0]
    base, other = (side.trials for side in alike.sides[:2])
    works = works_of([*base, *other], table)
    every_base, every_other = (side.trials for side in campaign.sides[:2])
    second = None if also is None else _Second.of(also)
    results = [
        results_table(work, base, other, comparison, report.target, _of_ranks(campaign, alike))
        for work in works
    ]
    patterns = [patterns_table(base, other, comparison, steps)]
    if second is not None:
        results += second.results()
        patterns.append(patterns_table(second.base, second.other, second.comparison))
    return PaperTables(
        base=report.base,
        other=comparison.other,
        mode=report.mode,
        target=report.target,
        verdict=str(comparison.verdict),
        reason=comparison.reason,
        hardware=str(base[0].is_like.get("hardware", "unknown")),
        data=str(base[0].is_like.get("data", "unknown")),
        settings=BothSettings(base[0].settings, other[0].settings),
        notes=_notes(
            any(is_of_paper(work, [*base, *other]) for work in works),
            results,
            steps,
            [
                *_of_memory(patterns),
                *_no_mfu([*base, *other, *([*second.base, *second.other] if second else ())]),
                *report.warnings,
                *(second.report.warnings if second else ()),
            ],
        ),
        tables=[
            *sorted(results, key=lambda each: each.table),
            components_table(steps),
            ranks_table(every_base, every_other, works[0]),
            phases_table(comparison, [*base, *other]),
            *patterns,
            doubling_table(comparison, base, other, months, scaled=report.target is None),
            costs_table(base, other, comparison),
        ],
    )


class _Second:
    """Runs of another model, for the tables of results and patterns."""

    def __init__(self, report: ComparisonReport, base: Sequence[Trial], other: Sequence[Trial]):
        self.report, self.base, self.other = report, base, other

    @classmethod
    def of(cls, campaign: Campaign) -> _Second:
        alike = of_fewest_ranks(campaign)
        base, other = (side.trials for side in alike.sides[:2])
        return cls(alike.compared(TOLERANCE), base, other)

    @property
    def comparison(self) -> Comparison:
        return self.report.comparisons[0]

    def results(self) -> list[PaperTable]:
        return [
            results_table(work, self.base, self.other, self.comparison, self.report.target)
            for work in works_of([*self.base, *self.other])
        ]


def _of_ranks(campaign: Campaign, alike: Campaign) -> str:
    if alike is campaign:
        return ""
    ranks = alike.sides[0].trials[0].ranks
    return f"; runs on {ranks} rank{'s' if ranks > 1 else ''}"


def _of_memory(patterns: Sequence[PaperTable]) -> list[str]:
    """What memory by kind of module is, if it was measured."""
    kinds = {type(row) for table in patterns for row in table.rows}
    lines = []
    if PeakMemoryRow in kinds:
        lines.append(
            "memory by kind is all that the rank held while a module of the kind ran, the most "
            "that was seen (allocated: by torch on the GPU; resident: by the process)"
        )
    if KeptMemoryRow in kinds:
        lines.append("kept: by how much one forward of such a module raised what is allocated")
    return lines


def _no_mfu(trials: Sequence[Trial]) -> list[str]:
    """Why runs have no FLOPs utilisation, each reason once."""
    runs: dict[str, int] = {}
    for trial in trials:
        if trial.no_mfu:
            runs[trial.no_mfu] = runs.get(trial.no_mfu, 0) + 1
    return [
        f"FLOPs utilisation is not stated by {number} run{'s' if number > 1 else ''}: {reason}"
        for reason, number in runs.items()
    ]


def _notes(
    of_paper: bool,
    results: Sequence[PaperTable],
    steps: Sequence[AblationStep] | None,
    warnings: Sequence[str],
) -> list[str]:
    lines = [f"the paper's figures are of {HARDWARE}, without intervals"]
    if not of_paper:
        lines.append("these runs are not the paper's model and data: read changes, not sizes")
    if steps and any(each.ours for each in components_table(steps).rows):
        lines.append("the paper's step is beside yours where the same techniques are on so far")
    if any(table.table == "II" and table.rows[_THROUGHPUT].ours for table in results):
        lines.append("tok/s: run.log(tokens=…), or tokens_per_sample in the run's config")
    lines.append("1 GB is 10⁹ bytes; throughput is over all of a run, start-up and evaluations too")
    return [*lines, *warnings]
