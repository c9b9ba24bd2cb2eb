"""Tables I and II, and the table of what the paper lacks: figures of both sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from ...errors import UsageError
from ...model import Provenance
from ...units import J_PER_KWH
from ..model import Comparison, TargetValue
from ..run_record import Trial
from .both_sides import gain_row, measured_row, why_no_interval
from .model import NOT_MEASURED, PaperFigures, PaperRow, PaperTable
from .stated import IMAGES, TEXT, StatedResults

GB = 1e9
TOKENS_PER_SAMPLE = "tokens_per_sample"  # in a run's config
_ACCURACY = ("accuracy", "acc", "top1", "top-1")
_PERPLEXITY = ("perplexity", "ppl")
_PREFIXES = ("eval_", "val_", "valid_", "validation_", "test_", "")
_MIN, _HOUR = 60.0, 3600.0
_ALL = 100.0  # % of a device's peak
IMPLAUSIBLE = "above 100 %: no use"


class Work(StrEnum):
    """What runs were trained on, as far as the paper's tables tell it apart."""

    IMAGES = "images"
    TEXT = "text"


_STATED = {Work.IMAGES: IMAGES, Work.TEXT: TEXT}


def works_of(trials: Sequence[Trial], table: str | None = None) -> list[Work]:
    """Which of Tables I and II the runs belong to; both if nothing tells.

    Args:
        table: the number of a table, which decides alone.

    Raises:
        UsageError: the paper has no such table of results.
    """
    if table is not None:
        chosen = [work for work in Work if _STATED[work].table == table.upper()]
        if not chosen:
            raise UsageError(f"--table {table}: I (images) or II (text)")
        return chosen
    data = " ".join({str(trial.is_like.get("data", "")) for trial in trials}).lower()
    if "cifar" in data or "imagenet" in data:
        return [Work.IMAGES]
    if "wikitext" in data or _counts_tokens(trials) or _logged(trials, _PERPLEXITY):
        return [Work.TEXT]
    return [Work.IMAGES] if _logged(trials, _ACCURACY) else [*Work]


def results_table(
    work: Work,
    base: Sequence[Trial],
    other: Sequence[Trial],
    comparison: Comparison,
    target: TargetValue | None,
    of_ranks: str = "",
) -> PaperTable:
    """Table I or II of these runs; ``of_ranks`` says of which they are, if others are there."""
    stated = _STATED[work]
    title = _title(stated, [*base, *other])
    rows = [
        *_time_and_memory(work, base, other, comparison, target),
        _throughput(work, base, other),
        _quality(work, base, other),
    ]
    if work is Work.IMAGES:
        rows.append(_utilisation(base, other, stated.rows["utilisation"]))
    return PaperTable(stated.table, title + of_ranks, rows)


def costs_table(
    base: Sequence[Trial], other: Sequence[Trial], comparison: Comparison
) -> PaperTable:
    """Samples, energy, energy per sample, energy-delay product and CO2e of both sides."""

    def metered(of: Callable[[Trial, float], float | None]) -> Callable[[Trial], float | None]:
        def value(trial: Trial) -> float | None:
            joules = trial.energy_j
            if joules is None or trial.energy is not Provenance.MEASURED or not trial.samples:
                return None
            return of(trial, joules)

        return value

    unit = base[0].unit.removesuffix("s")
    energy = gain_row("energy", "J", comparison.energy_j, 1.0, why_no_interval(base, other))
    if comparison.energy_j.provenance is Provenance.MODELLED:
        energy = replace(energy, what="energy (modelled)", verdict=None)
    rows = [
        measured_row(f"{base[0].unit} trained on", "", base, other, lambda trial: trial.samples),
        energy,
        measured_row(
            f"energy per {unit}",
            f"J/{unit}",
            base,
            other,
            metered(lambda trial, joules: joules / trial.samples),
        ),
        measured_row(
            "energy-delay product",
            "J·s",
            base,
            other,
            metered(lambda trial, joules: joules * trial.time_s),
        ),
        measured_row(
            "CO2e",
            "g",
            base,
            other,
            metered(
                lambda trial, joules: (
                    None if trial.g_per_kwh is None else joules / J_PER_KWH * trial.g_per_kwh
                )
            ),
        ),
    ]
    return PaperTable("", "what the paper lacks: energy, EDP, CO2e", rows)


def throughput_of(
    work: Work, trials: Sequence[Trial]
) -> tuple[str, Callable[[Trial], float | None]]:
    """(unit, function) of units of work per second over all ranks, as the paper counts them."""
    if work is Work.TEXT:
        return "tok/s", lambda trial: _rate(trial, _tokens(trial))
    if trials[0].unit == "samples":
        return "img/s", lambda trial: _rate(trial, trial.samples)
    return f"{trials[0].unit}/s", lambda trial: _rate(trial, trial.samples)


def is_of_paper(work: Work, trials: Sequence[Trial]) -> bool:
    """Whether the runs say that they trained the paper's model on the paper's data."""
    stated = _STATED[work]
    return all(
        trial.is_like.get("data") == stated.data and trial.settings.get("model") == stated.model
        for trial in trials
    )


def _title(stated: StatedResults, trials: Sequence[Trial]) -> str:
    work = next(work for work in Work if _STATED[work] is stated)
    if is_of_paper(work, trials):
        return f"{stated.data}, {stated.model}"
    data, model = trials[0].is_like.get("data"), trials[0].settings.get("model")
    return (
        f"{data or 'data without a name'}, {model or 'a model without a name'}; "
        f"the paper: {stated.data}, {stated.model}"
    )


def _time_and_memory(
    work: Work,
    base: Sequence[Trial],
    other: Sequence[Trial],
    comparison: Comparison,
    target: TargetValue | None,
) -> list[PaperRow]:
    stated = _STATED[work].rows
    unit, seconds = ("min", _MIN) if work is Work.IMAGES else ("h", _HOUR)
    what = "time, the same work"
    if target is not None:
        sign = "≥" if target.direction == ">=" else "≤"
        what = f"time to {target.metric} {sign} {target.value:g}"
    without = why_no_interval(base, other)
    return [
        gain_row(what, unit, comparison.time_s, seconds, without, stated["time"]),
        gain_row("peak memory", "GB", comparison.memory_bytes, GB, without, stated["memory"]),
    ]


def _throughput(work: Work, base: Sequence[Trial], other: Sequence[Trial]) -> PaperRow:
    unit, rate = throughput_of(work, [*base, *other])
    stated = _STATED[work].rows["throughput"]
    if unit == "steps/s":  # of an unknown number of images
        return PaperRow(what="throughput", unit="img/s", ours=NOT_MEASURED, paper=stated)
    return measured_row("throughput", unit, base, other, rate, stated)


def _quality(work: Work, base: Sequence[Trial], other: Sequence[Trial]) -> PaperRow:
    stated = _STATED[work].rows["quality"]
    if work is Work.IMAGES:
        of = _last_of(_names(_ACCURACY), percent=True)
        return measured_row("final accuracy", "%", base, other, of, stated)
    return measured_row("final perplexity", "", base, other, _last_of(_names(_PERPLEXITY)), stated)


def _utilisation(base: Sequence[Trial], other: Sequence[Trial], stated: PaperFigures) -> PaperRow:
    mfu = _last_of(["mfu"], percent=True)
    row = measured_row("FLOPs utilisation", "%", base, other, mfu, stated)
    if any((mfu(trial) or 0.0) > _ALL for trial in (*base, *other)):
        return PaperRow(what=row.what, unit=row.unit, ours=IMPLAUSIBLE, paper=stated)
    return row


def _names(metrics: Sequence[str]) -> list[str]:
    return [prefix + metric for prefix in _PREFIXES for metric in metrics]


def _last_of(names: Sequence[str], *, percent: bool = False) -> Callable[[Trial], float | None]:
    """The last value of the first of these names that a run logged."""

    def value(trial: Trial) -> float | None:
        last = next((trial.last[name] for name in names if name in trial.last), None)
        return None if last is None else 100 * last if percent else last

    return value


def _logged(trials: Sequence[Trial], metrics: Sequence[str]) -> bool:
    return all(any(name in trial.last for name in _names(metrics)) for trial in trials)


def _counts_tokens(trials: Sequence[Trial]) -> bool:
    return all(_tokens(trial) is not None for trial in trials)


def _tokens(trial: Trial) -> float | None:
    """Tokens that a run was trained on: as it logged them, or by its windows' length."""
    if trial.unit == "tokens":
        return trial.samples
    each = trial.settings.get(TOKENS_PER_SAMPLE)
    return (
        trial.samples * each if trial.unit == "samples" and isinstance(each, int | float) else None
    )


def _rate(trial: Trial, work: float | None) -> float | None:
    return work / trial.time_s if work and trial.time_s else None
