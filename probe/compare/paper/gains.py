"""Where the gain comes from, and how fast such gains add up: equations (21) to (23)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from ...attribution.arrays import Floats
from ...model import Phase
from ...report.numbers import number
from ..gain import Interval, OpenInterval, closed
from ..model import Comparison
from ..phase_classes import NOT_SEPARATED
from ..quantity import pairs
from ..run_record import Trial
from ..statistics import contrast, paired
from .both_sides import TARGET_MISSED, why_no_interval
from .doubling_time import doubling_interval, doubling_months, speed_up
from .model import NOT_MEASURED, FigureRow, PaperTable
from .patterns import NOT_TOLD_APART
from .stated import (
    CAUTIOUS_DOUBLING,
    DOUBLING,
    GAIN_PER_CYCLE,
    MONTHS,
    MORE_CAUTIOUS_GAIN,
    NET_SPEED_UP,
    PHASES,
    RECOMPUTATION,
    SPEED_UP_WITHOUT_RECOMPUTATION,
)

_PHASES = {
    "early": "early training",
    "gradient": "gradient-intensive",
    "memory": "memory-bound",
    "communication": "communication-bound",
    "rest": "the rest",
}
_CYCLES = (2, 3, 4)


def phases_table(comparison: Comparison, trials: Sequence[Trial]) -> PaperTable:
    """Error analysis: shares of the gain in percent by kind of phase."""
    single = all(trial.ranks == 1 for trial in trials)
    rows = []
    for key, name in _PHASES.items():
        paper = PHASES.get(key)
        if key == "communication" and single:
            rows.append(FigureRow(what=name, unit="%", ours="n/a: one rank", paper=paper))
        elif comparison.four is None or comparison.four_intervals is None:
            verdict = f"{comparison.verdict} in {comparison.verdict_by}"
            rows.append(FigureRow(what=name, unit="%", ours=verdict, paper=paper))
        elif (share := comparison.four[key]) is None:
            rows.append(FigureRow(what=name, unit="%", ours=NOT_SEPARATED, paper=paper))
        elif share == 0 and not comparison.four_intervals[key]:  # no phase of it has a figure
            rows.append(FigureRow(what=name, unit="%", ours=NOT_TOLD_APART, paper=paper))
        else:
            limits = comparison.four_intervals[key]
            rows.append(
                FigureRow(
                    what=name,
                    unit="%",
                    value=100 * share,
                    interval=(100 * limits[0], 100 * limits[1]) if limits else None,
                    no_interval=None if limits else "not bounded",
                    paper=paper,
                )
            )
    return PaperTable(
        "", f"error analysis by phase: shares of the {comparison.four_of} saved", rows
    )


def doubling_table(
    comparison: Comparison,
    base: Sequence[Trial],
    other: Sequence[Trial],
    months: float,
    *,
    scaled: bool,
) -> PaperTable:
    """Speed-up and doubling time of a change that was made in so many months.

    A change that may be none, or a loss, has intervals too: they hold 1, or never.

    Args:
        scaled: both sides are compared for the same number of samples.
    """
    time = comparison.time_s
    title = f"speed-up and doubling time, eq. (21)–(23), one such change every {months:g} months"
    if time.gain is None or time.percent is None or time.percent >= 100:
        missed = TARGET_MISSED if time.bound or time.base else NOT_MEASURED
        net = FigureRow(what="net speed-up (21)", unit="×", ours=missed, paper=NET_SPEED_UP)
        months_row = FigureRow(
            what="doubling time (22)(23)", unit="months", ours=missed, paper=_exactly(DOUBLING)
        )
        return PaperTable("", title, [net, months_row, *_of_paper()])
    without = why_no_interval(base, other)
    factor = speed_up(time.percent)[0]
    limits = closed(time.interval)
    percents = (
        (100 * limits[0] / time.base, 100 * limits[1] / time.base) if limits and time.base else None
    )
    factors = None if percents is None else _factors(percents)
    months_to_double = doubling_months(factor, months)
    return PaperTable(
        "",
        title,
        [
            _row("net speed-up (21)", "×", factor, factors, without, NET_SPEED_UP),
            *_recomputation(base, other, without, scaled=scaled),
            *(
                _row(
                    f"after {cycles} cycles, {cycles * months:g} months (22)",
                    "×",
                    factor**cycles,
                    factors and _to_power(factors, cycles),
                    without,
                    f"{number(GAIN_PER_CYCLE**cycles)} (of {GAIN_PER_CYCLE} a cycle)",
                )
                for cycles in _CYCLES
            ),
            FigureRow(
                what="doubling time (22)(23)",
                unit="months",
                value=months_to_double,
                ours="never" if months_to_double is None else None,
                interval=None if percents is None else doubling_interval(percents, months),
                no_interval=None if percents else without,
                paper=_exactly(DOUBLING),
            ),
            *_of_paper(),
        ],
    )


def _to_power(limits: OpenInterval, power: int) -> OpenInterval:
    """Both ends of an interval of a factor, to the power."""
    low, high = (None if end is None else end**power for end in limits)
    return low, high


def _exactly(printed: str) -> str:
    exact = doubling_months(GAIN_PER_CYCLE, MONTHS)
    return f"{printed} (exactly {number(exact)}, of {GAIN_PER_CYCLE})"


def _of_paper() -> list[FigureRow]:
    exact = doubling_months(MORE_CAUTIOUS_GAIN, MONTHS)
    return [
        FigureRow(
            what=f"the same at {100 * (MORE_CAUTIOUS_GAIN - 1):.0f} % a cycle",
            unit="months",
            value=exact,
            no_interval="arithmetic",
            paper=CAUTIOUS_DOUBLING,
        )
    ]


def _row(
    what: str,
    unit: str,
    value: float,
    interval: OpenInterval | None,
    without: str,
    paper: str | None,
) -> FigureRow:
    return FigureRow(
        what=what,
        unit=unit,
        value=value,
        interval=interval,
        no_interval=None if interval else without,
        paper=paper,
    )


def _factors(percents: Interval) -> OpenInterval:
    """Speed-ups at the ends of an interval of the time saved; None: no end."""
    low, high = (speed_up(percent)[0] if percent < 100 else None for percent in percents)
    return low, high


def _recomputation(
    base: Sequence[Trial], other: Sequence[Trial], without: str, *, scaled: bool
) -> list[FigureRow]:
    """(21) without the time of recomputation, and how much that was; as runs that recompute."""
    gross, overhead = "without recomputation", "recomputation, of the rest"
    if not any(trial.spent(Phase.RECOMPUTE) for trial in other):
        none = "none recorded"
        return [
            FigureRow(what=gross, unit="×", ours=none, paper=SPEED_UP_WITHOUT_RECOMPUTATION),
            FigureRow(what=overhead, unit="%", ours=none, paper=RECOMPUTATION),
        ]

    def share(trial: Trial) -> float:
        spent = trial.spent(Phase.RECOMPUTE)
        return 100 * spent / (trial.time_s - spent)

    percent, limits = _saved_beside(base, other, scaled=scaled)
    values = [share(trial) for trial in other]
    spread = paired(np.array(values)[:, np.newaxis])
    half = float(spread.half()[0])
    mean = fmean(values)
    return [
        _row(
            gross,
            "×",
            speed_up(percent)[0],
            None if limits is None else _factors(limits),
            without,
            SPEED_UP_WITHOUT_RECOMPUTATION,
        ),
        _row(
            overhead,
            "%",
            mean,
            (mean - half, mean + half) if spread.has_error and half > 0 else None,
            without,
            RECOMPUTATION,
        ),
    ]


def _saved_beside(
    base: Sequence[Trial], other: Sequence[Trial], *, scaled: bool
) -> tuple[float, Interval | None]:
    """Percent of the base's time that the others save if recomputation took none; its interval.

    Args:
        scaled: for the same number of samples as the base's run.
    """

    def pair(i: int, j: int) -> Floats:
        rest = other[j].time_s - other[j].spent(Phase.RECOMPUTE)
        if scaled and base[i].samples and other[j].samples:
            rest *= base[i].samples / other[j].samples
        return np.array([base[i].time_s - rest, base[i].time_s])

    measured = contrast(pairs(base, other), len(base), len(other), pair)
    saved, mean = map(float, measured.value)
    half = float(measured.half()[0])
    if not measured.has_error or not half > 0:
        return 100 * saved / mean, None
    return 100 * saved / mean, (100 * (saved - half) / mean, 100 * (saved + half) / mean)
