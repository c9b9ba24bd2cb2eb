"""Rows of the paper's tables: each figure of the runs beside the paper's, where it states one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from ...attribution.arrays import Floats
from ...model import Phase, Provenance
from ...units import J_PER_KWH
from ..gain import Gain, Interval, Verdict, closed
from ..model import FOUR_NAMES, Comparison
from ..phase_classes import NOT_SEPARATED
from ..quantity import pairs
from ..run_record import Trial
from ..scaling import scaling
from ..statistics import contrast
from .ablation_steps import AblationStep
from .doubling_time import doubling_interval, doubling_months, speed_up
from .model import PaperRow

NOT_MEASURED, NOT_APPLICABLE, NOT_APART = "not measured", "n/a", "inside other phases"
# What the paper states, in its own units; what it does not state is not here.
PAPER = {
    "time": "−23 … −28 %",
    "peak memory": "−25 %",
    "throughput": "−21.5 % time per sample",
    "samples": "−6 %",
    "early": "35 %",
    "gradient": "28 %",
    "memory": "22 %",
    "communication": "15 %",
    "doubling": "14.8 months",
}
_PATTERNS = ("attention", "mlp", "convolution", "norm")


def _row(
    what: str,
    base: float | None = None,
    other: float | None = None,
    unit: str = "",
    percent: float | None = None,
    interval: Interval | None = None,
    paper: str = "",
    ours: str | None = None,
    verdict: str | None = None,
) -> PaperRow:
    """``paper`` is a key of PAPER; ``interval`` is of the change, in percent."""
    return PaperRow(
        what, base, other, unit, percent, interval, PAPER.get(paper) or None, ours, verdict
    )


def results_rows(comparison: Comparison) -> list[PaperRow]:
    """Table I: time, energy, peak memory and final quality of both sides."""
    rows = []
    modelled = comparison.energy_j.provenance is Provenance.MODELLED
    quantities: list[tuple[str, Gain, str]] = [
        ("time", comparison.time_s, "s"),
        ("energy", comparison.energy_j, "J"),
        ("peak memory", comparison.memory_bytes, "B"),
    ]
    for what, gained, unit in quantities:
        if gained.gain is None or gained.percent is None:
            bound = gained.bound is not None
            rows.append(
                _row(what, unit=unit, paper=what, ours="target missed" if bound else NOT_MEASURED)
            )
            continue
        is_modelled = modelled and what == "energy"
        rows.append(
            _row(
                f"{what} (modelled)" if is_modelled else what,
                gained.base,
                gained.other,
                unit,
                -gained.percent,
                _change(gained),
                what,
                verdict=None if is_modelled else str(gained.verdict),
            )
        )
    quality = comparison.quality
    if quality.base is None or quality.metric is None:
        rows.append(_row("quality", ours=NOT_MEASURED))
    else:
        rows.append(
            _row(quality.metric, quality.base, quality.other, percent=quality.difference_percent)
        )
    return rows


def _change(gained: Gain) -> Interval | None:
    """The interval of a gain as that of the change, in percent of the base."""
    limits = closed(gained.interval)
    if limits is None or not gained.base:
        return None
    return -100 * limits[1] / gained.base, -100 * limits[0] / gained.base


def costs_rows(base: Sequence[Trial], other: Sequence[Trial]) -> list[PaperRow]:
    """Table II: samples, throughput, energy, energy-delay product and CO2e of both sides."""

    def energy(trial: Trial) -> float | None:
        return trial.energy_j if trial.energy is Provenance.MEASURED else None

    def each(of: Callable[[Trial, float], float]) -> Callable[[Trial], float | None]:
        def measured(trial: Trial) -> float | None:
            joules = energy(trial)
            return of(trial, joules) if joules is not None and trial.samples else None

        return measured

    unit = base[0].unit.removesuffix("s")
    asked: list[tuple[str, str, str, Callable[[Trial], float | None]]] = [
        (base[0].unit, "", "samples", lambda t: t.samples),
        (
            "throughput",
            f"{base[0].unit}/s",
            "throughput",
            lambda t: t.samples / t.time_s if t.time_s else None,
        ),
        (f"energy per {unit}", "J", "", each(lambda t, joules: joules / t.samples)),
        ("energy-delay product", "J·s", "", each(lambda t, joules: joules * t.time_s)),
        (
            "CO2e",
            "g",
            "",
            lambda t: (
                None
                if (joules := energy(t)) is None or t.g_per_kwh is None
                else joules / J_PER_KWH * t.g_per_kwh
            ),
        ),
    ]
    return [_compared(what, name, paper, base, other, of) for what, name, paper, of in asked]


def _compared(
    what: str,
    unit: str,
    paper: str,
    base: Sequence[Trial],
    other: Sequence[Trial],
    of: Callable[[Trial], float | None],
) -> PaperRow:
    values = [
        [value for trial in side if (value := of(trial)) is not None] for side in (base, other)
    ]
    if len(values[0]) != len(base) or len(values[1]) != len(other):
        return _row(what, unit=unit, paper=paper, ours=NOT_MEASURED)
    ours, theirs = values

    def pair(i: int, j: int) -> Floats:
        return np.array([theirs[j] - ours[i]])

    changes = contrast(pairs(base, other), len(ours), len(theirs), pair)
    mean, change = fmean(ours), float(changes.value[0])
    limits = None
    half = float(changes.half()[0])
    if changes.has_error and mean and half:
        limits = 100 * (change - half) / mean, 100 * (change + half) / mean
    return _row(
        what, mean, fmean(theirs), unit, 100 * change / mean if mean else None, limits, paper
    )


def ablation_rows(steps: Sequence[AblationStep] | None) -> list[PaperRow]:
    """Table III: time and energy of each technique that was added; None: no ablation was made."""
    if steps is None:
        return [_row("each technique", ours=NOT_MEASURED)]
    rows = []
    for step in steps:
        quantities: list[tuple[str, Gain, str]] = [
            ("time", step.time_s, "s"),
            ("energy", step.energy_j, "J"),
        ]
        for what, gained, unit in quantities:
            name = f"+ {step.technique}, {what}"
            modelled = what == "energy" and step.energy_j.provenance is Provenance.MODELLED
            if gained.gain is None or gained.percent is None or modelled:
                rows.append(_row(name, unit=unit, ours=NOT_MEASURED))
                continue
            limits, verdict = _change(gained), str(gained.verdict)
            rows.append(
                _row(
                    name, gained.base, gained.other, unit, -gained.percent, limits, verdict=verdict
                )
            )
    return rows


def scaling_rows(base: Sequence[Trial], other: Sequence[Trial]) -> list[PaperRow]:
    """Table IV: throughput, efficiency, energy and communication by number of ranks."""
    rows = []
    points = scaling(base, other)
    for point in points:
        ranks = f"{point.ranks} rank{'s' if point.ranks > 1 else ''}"
        rows.append(_row(f"{ranks}, throughput", other=point.throughput, unit=f"{point.unit}/s"))
        if point is not points[0]:
            rows.append(_row(f"{ranks}, efficiency", unit="%", other=100 * point.efficiency))
        joules = point.energy_per_sample_j
        rows.append(
            _row(
                f"{ranks}, energy per {point.unit.removesuffix('s')}",
                unit="J",
                other=joules,
                ours=NOT_MEASURED if joules is None else None,
            )
        )
        share = point.communication
        rows.append(
            _row(
                f"{ranks}, communication",
                unit="%",
                other=None if share is None else 100 * share,
                ours=None
                if share is not None
                else NOT_APPLICABLE
                if point.ranks == 1
                else NOT_APART,
            )
        )
    return rows


def patterns_rows(base: Sequence[Trial], other: Sequence[Trial]) -> list[PaperRow]:
    """By kind of module, of runs that were watched with ``modules=True``."""
    rows = []
    for kind in _PATTERNS:
        phases = (f"{Phase.FORWARD}/{kind}", f"{Phase.BACKWARD}/{kind}")

        def each(trial: Trial, phases: tuple[str, ...] = phases) -> float | None:
            spent = sum(trial.spent(phase) for phase in phases)
            return spent / trial.samples if spent and trial.samples else None

        rows.append(_compared(kind, "s", "", base, other, each))
    return rows


def by_phase_rows(comparison: Comparison, trials: Sequence[Trial]) -> list[PaperRow]:
    """Shares of the gain in percent by kind of phase."""
    single = all(trial.ranks == 1 for trial in trials)
    rows = []
    for key, name in FOUR_NAMES.items():
        if key == "communication" and single:
            rows.append(_row(name, unit="%", paper=key, ours=NOT_APPLICABLE))
        elif comparison.four is None or comparison.four_intervals is None:
            rows.append(_row(name, unit="%", paper=key, ours=str(comparison.verdict)))
        elif (share := comparison.four[key]) is None:
            rows.append(_row(name, unit="%", paper=key, ours=NOT_SEPARATED))
        else:
            limits = comparison.four_intervals[key]
            rows.append(
                _row(
                    name,
                    other=100 * share,
                    unit="%",
                    paper=key,
                    interval=(100 * limits[0], 100 * limits[1]) if limits else None,
                )
            )
    return rows


def doubling_rows(comparison: Comparison, other: Sequence[Trial], months: float) -> list[PaperRow]:
    """Speed-up and doubling time, equations (21) to (23), of a gain made in so many months."""
    time = comparison.time_s
    if time.verdict is not Verdict.GAIN or time.percent is None:
        verdict = f"{time.verdict} in time"
        return [
            _row("speed-up (21)", ours=verdict),
            _row("doubling time (22)(23)", ours=verdict, paper="doubling"),
        ]
    recomputed = fmean(t.spent(Phase.RECOMPUTE) / t.time_s for t in other)
    net, gross = speed_up(time.percent, recomputed)
    limits = closed(time.interval)
    low, high = (
        doubling_interval([100 * value / time.base for value in limits], months)
        if limits and time.base
        else (None, None)
    )
    rows = [
        _row("net speed-up (21)", other=net, unit="×"),
        _row("without recomputation", other=gross, unit="×"),
    ]
    row = PaperRow(
        f"doubling time (22)(23), over {months:g} months",
        unit="months",
        other=doubling_months(net, months),
        paper=PAPER["doubling"],
        interval=(low, high),
    )
    return [*rows, row]
