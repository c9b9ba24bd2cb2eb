"""How a device's meter shows power, in the report's keys and in words.

``sources[].response`` is what the run's own data, or a calibration, say of it; ``sources[].fit``
whether the readings are those of such a sensor; the words are the source's note.
"""

from __future__ import annotations

from ..attribution.estimate import Estimate
from ..attribution.regression.energies import PhaseEnergies
from ..attribution.regression.solution import LONGER
from ..attribution.regression.statistics import Statistics
from ..attribution.response.response import Kind, Response
from ..report.model import SensorFit, SensorResponse
from ..report.numbers import duration

_LATE_S, _SLOW_S, _WANDERS_S = 0.003, 0.012, 0.0015
_SURE = 1.0  # standard errors
_CANNOT_BE_DATED = (
    "it moves about as often as it is read: its updates cannot be dated and say nothing of phases"
)


def response_row(estimated: Estimate) -> SensorResponse:
    """``sources[].response``; times in s."""
    response, about = estimated.solution.response, estimated.statistics
    return SensorResponse(
        kind=", ".join(_words(estimated)) or "in time",
        delay_s=response.delay_s,
        tau_s=response.tau_s,
        window_s=response.window_s,
        period_s=about.period_s,
        wander_s=about.wander_s,
        from_=about.response_from,
    )


def fit_row(estimated: Estimate) -> SensorFit:
    """``sources[].fit``."""
    ok = not (estimated.fit.doubtful or estimated.beyond or estimated.delay_changed)
    refused = estimated.misfit and not estimated.dates_waver
    remedy = _REFUSED if refused else _WEAK if estimated.fits_badly else _WIDENED
    return SensorFit(
        ok=ok, p=estimated.fit.p, failed=None if ok else "response", remedy=None if ok else remedy
    )


_REFUSED = (
    "phases share energy by time, within bounds; `probe calibrate` on this card tells what its "
    "sensor does"
)
_WEAK = (
    "no phase is resolved, and all intervals are 1.5 times as wide; a longer run, or "
    "`probe calibrate`, tells"
)
_WIDENED = "all intervals are 1.5 times as wide; a longer run, or `probe calibrate`, tells"


def sampling_error_j(estimated: Estimate) -> float:
    """By how much a part-time meter's total is off because it is a sample; else 0."""
    solution = estimated.solution
    return 2 * abs(PhaseEnergies(solution).missed_j) if solution.windowed else 0.0


def note(estimated: Estimate) -> str:
    """What a reader must know of the meter, in words; empty if it is in time and quick."""
    response, about = estimated.solution.response, estimated.statistics
    words = {
        "part-time": f"part-time: it integrates {_ms(response.part_s)} of every "
        f"{_ms(about.period_s)}",
        "averaging": f"averaging: it shows the mean of the last {_ms(response.window_s)}",
        "late": f"late: it shows power {_ms(response.delay_s)} after it was drawn",
        "slow": f"slow: it follows power with a time constant of {_ms(response.tau_s)}",
        "wandering": f"wandering: its updates come up to {_ms(2 * about.wander_s)} early or late",
    }
    said = [words[word] for word in _words(estimated)]
    if estimated.delay_unknown:
        said.append(
            "how late it shows power cannot be told from this run: its steps are too even or too "
            "few, so no phase is resolved; `probe calibrate` tells"
        )
    if about.undated:
        said.append(_CANNOT_BE_DATED)
    said += [
        f"from {duration(at_s)} on phases draw another power: before and after are solved apart"
        for at_s, meter in zip(estimated.changed_s, estimated.delay_changes, strict=True)
        if not meter
    ]
    return "; ".join(said + _delay_changes(estimated))


def note_unsolved(statistics: Statistics | None) -> str:
    """Why no phase of a meter was solved, in words; empty if the meter is not why."""
    return _CANNOT_BE_DATED if statistics is not None and statistics.undated else ""


def _delay_changes(estimated: Estimate) -> list[str]:
    """In words, when the meter itself changed."""
    return [
        f"from {duration(at_s)} on the meter is later, or earlier, than before"
        for at_s, meter in zip(estimated.changed_s, estimated.delay_changes, strict=True)
        if meter
    ]


def fit_warning(estimated: Estimate, label: str) -> str | None:
    """A line if the readings are not those of any sensor in the family."""
    if not estimated.misfit or estimated.dates_waver:
        return None
    if estimated.delay_changed:
        return (
            f"{label}: {'; '.join(_delay_changes(estimated))}. No response holds for all of the "
            f"run, so no energy of a phase is stated; {_REFUSED}"
        )
    chance = f"(a misfit as large has a chance of {estimated.fit.p:.1g})"
    if estimated.beyond:
        why = "would take a slower or later meter than is modelled"
    elif estimated.fit.comes_late:
        why = f"seem to show a part of the power tenths of a second late {chance}"
    else:
        why = f"do not fit phases of constant power {chance}"
    return (
        f"{label}: its readings {why}, so no energy of a phase is stated. Either the meter "
        "works in a way that is not modelled, or a phase draws another power after a long wait "
        f"than after a short one; {_REFUSED}"
    )


def _words(estimated: Estimate) -> list[str]:
    response, about = estimated.solution.response, estimated.statistics
    delay_error_s, lag_error_s = estimated.solution.response_error_s
    words = []
    if estimated.part_time:
        words.append("part-time")
    if _is_averaging(response, about.period_s):
        words.append("averaging")
    if response.delay_s > max(_LATE_S, _SURE * delay_error_s):
        words.append("late")
    if response.tau_s > max(_SLOW_S, _SURE * lag_error_s):
        words.append("slow")
    if about.wander_s > _WANDERS_S:
        words.append("wandering")
    return words


def _is_averaging(response: Response, period_s: float) -> bool:
    """True if it shows more than the time since the update before."""
    if response.kind is Kind.PART_TIME:
        return response.part_s > LONGER * period_s
    return response.kind is Kind.AVERAGE and response.window_s > _SLOW_S


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds >= 0.01 else f"{1e3 * seconds:.1f} ms"
