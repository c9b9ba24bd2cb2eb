"""From trials to verdicts: the JSON of ``probe compare`` (schema 1). Positive numbers are saved.

Nothing is a gain if the other side is worse in quality, missed the target, is not comparable, or
was run only once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from ..attribution.arrays import Floats
from ..model import SCHEMA_VERSION, Provenance
from . import phase_classes as kinds
from .cells import Layout, energy_row, time_row
from .quantity import LOST, NO_EVIDENCE, ComparedQuantity, Frame, gain, nothing, pairs
from .scaling import scaling
from .sides import Question, Side, early_gains, quality, sample_factors
from .statistics import contrast


def compare(
    base: Side,
    others: Sequence[Side],
    question: Question,
    problems: Sequence[Sequence[str]] = (),
    shares: kinds.ClassShares | None = None,
) -> dict[str, Any]:
    """Hold every other side against the base.

    Args:
        shares: the classes, if they were decided on other runs than the base's.
        problems: why each other side is not comparable with the base, if it is not.
    """
    shares = shares or kinds.classes(base.trials)
    target = question.target
    return {
        "schema": SCHEMA_VERSION,
        "base": base.as_json(),
        "mode": question.mode,
        "target": None
        if target is None
        else {
            "metric": target.metric,
            "direction": ">=" if target.higher else "<=",
            "value": target.value,
        },
        "unit": base.trials[0].unit,
        "classes": {phase: dict(shared) for phase, shared in shares.items()},
        "comparisons": [
            _Comparison(base, other, question, shares, why).as_json()
            for other, why in zip(others, problems or [()] * len(others), strict=True)
        ],
    }


class _Comparison:
    """One other side against the base."""

    def __init__(
        self,
        base: Side,
        other: Side,
        question: Question,
        shares: kinds.ClassShares,
        problems: Sequence[str],
    ):
        self._base, self._other, self._problems = base, other, problems
        trials = [*base.trials, *other.trials]
        self._layout = Layout.of(trials, shares)
        self._quality = quality(base, other, question)
        energies = {trial.energy for trial in trials}
        self._energy = energies.pop() if len(energies) == 1 else None
        missed = [sum(trial.reached is False for trial in side.trials) for side in (base, other)]
        self._frame = Frame(
            self._layout.cells,
            pairs(base.trials, other.trials),
            sample_factors(base, other, question),
            (missed[0], missed[1]),
            self._quality["ok"],
            not problems,
            len({trial.meters for trial in trials}) == 1,
            max((trial.meter_error for trial in trials), default=0.0),
        )

    def _quantity(self, *, energy: bool) -> ComparedQuantity:
        row_of = energy_row if energy else time_row
        alone = (
            math.hypot(
                *(
                    fmean(trial.energy_half_j for trial in side.trials)
                    for side in (self._base, self._other)
                )
            )
            if energy
            else 0.0
        )
        bases, others = (
            [row_of(trial, self._layout) for trial in side.trials]
            for side in (self._base, self._other)
        )
        return ComparedQuantity(self._frame, bases, others, shared=energy, alone_half=alone)

    def _scaling(self) -> list[dict[str, Any]]:
        """Empty if both sides have as many ranks."""
        rows = scaling(self._base.trials, self._other.trials)
        return rows if len(rows) > 1 else []

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        time = self._quantity(energy=False)
        joules = self._quantity(energy=True) if self._energy is not None else None
        time_g = time.as_json()
        energy_g = nothing() if joules is None else joules.as_json()
        if self._energy is Provenance.MODELLED:
            energy_g |= _modelled(energy_g)
        energy_g["provenance"] = None if self._energy is None else str(self._energy)
        by = "energy" if self._energy is Provenance.MEASURED else "time"
        leading, leader = (energy_g, joules) if by == "energy" else (time_g, time)
        assert leader is not None
        verdict = str(leading["verdict"])
        has_gain = verdict != NO_EVIDENCE and leading["gain"] is not None
        four = leader.four() if has_gain else None
        return {
            "other": self._other.as_json(),
            "time_s": time_g,
            "energy_j": energy_g,
            "memory_bytes": self._memory(),
            "quality": self._quality,
            "cells": self._cells(time, joules, shared_out=leader if has_gain else None),
            "four": None if four is None else {name: share for name, (share, _) in four.items()},
            "four_intervals": None
            if four is None
            else {name: limits for name, (_, limits) in four.items()},
            "four_of": by,
            "scaling": self._scaling(),
            "early_at": early_gains(
                self._base, self._other, by, leading["gain"] if has_gain else None
            ),
            "moved": kinds.moved(self._base.trials, self._other.trials),
            "paired": bool(self._frame.pairs),
            "runs": len(self._frame.pairs) or min(len(s.trials) for s in (self._base, self._other)),
            "comparable": not self._problems,
            "differs": list(self._problems),
            "verdict": verdict,
            "verdict_by": by,
            "reason": self._reason(verdict, by),
        }

    # -- parts of the JSON -----------------------------------------------------------

    def _reason(self, verdict: str, by: str) -> str:
        if self._problems:
            return "not comparable: " + "; ".join(self._problems)
        if self._quality["ok"] is False and verdict != LOST:
            percent = self._quality["difference_percent"]
            much = "" if percent is None else f"{abs(percent):.2g} % "
            return f"quality: {self._quality['metric']} is {much}worse"
        for side, missed in zip((self._base, self._other), self._frame.missed, strict=True):
            if missed:
                return (
                    f"target missed by {missed} of {len(side.trials)} runs of {side.name}: "
                    "what they cost is a bound"
                )
        if verdict != NO_EVIDENCE:
            return ""
        if min(len(self._base.trials), len(self._other.trials)) < 2:
            return "one run a side says nothing of how runs differ: make three or more"
        return f"the interval of the {by} gain holds zero"

    def _memory(self) -> dict[str, Any]:
        peaks = [
            [trial.memory.get("peak") for trial in side.trials]
            for side in (self._base, self._other)
        ]
        names = [name for name in self._base.trials[0].memory if name != "peak"]
        gained: dict[str, Any] = nothing()
        if not any(peak is None for side in peaks for peak in side):
            bases, others = ([float(peak or 0) for peak in side] for side in peaks)

            def pair(i: int, j: int) -> Floats:
                return np.array([bases[i] - others[j], bases[i]])

            measured = contrast(self._frame.pairs, len(bases), len(others), pair)
            base = float(measured.value[1])
            gained |= gain(measured, 0, self._frame, base=base, is_total=True)
            gained |= {"base": base, "other": base - gained["gain"]}
        gained["components"] = [
            {
                "component": name,
                **{
                    key: fmean(trial.memory[name] for trial in side.trials)
                    if all(name in trial.memory for trial in side.trials)
                    else None
                    for key, side in (("base", self._base), ("other", self._other))
                },
            }
            for name in names
        ]
        return gained

    def _cells(
        self,
        time: ComparedQuantity,
        joules: ComparedQuantity | None,
        shared_out: ComparedQuantity | None,
    ) -> list[dict[str, Any]]:
        if any(self._frame.missed):
            return []
        trials = [*self._base.trials, *self._other.trials]
        time_cells = time.cells()
        energy_cells = None if joules is None else joules.cells()
        rows = []
        for at, (stage, kind) in enumerate(self._layout.cells):
            stated, refused, status = self._layout.known((stage, kind), trials)
            seconds = time_cells[at]
            row = {
                "stage": stage,
                "class": kind,
                "time_s": seconds["gain"],
                "time_s_interval": seconds["interval"],
                "time_verdict": seconds["verdict"],
                "energy_j": None,
                "energy_j_interval": None,
                "progress_j": None,
                "cost_j": None,
                "progress_j_interval": None,
                "cost_j_interval": None,
                "verdict": NO_EVIDENCE,
                "progress_verdict": NO_EVIDENCE,
                "cost_verdict": NO_EVIDENCE,
                "share": None,
                "share_interval": None,
                "phases": stated,
                "refused": refused,
                "bounds_j": None,
                "status": str(status),
                "provenance": str(Provenance.MEASURED),
            }
            # A class of which nothing is stated: its joules are in `unidentified`.
            is_told = kind == kinds.UNIDENTIFIED or bool(stated)
            if energy_cells is not None and is_told:
                joule = energy_cells[at]
                modelled = self._energy is Provenance.MODELLED
                row |= {
                    "energy_j": joule["gain"],
                    "energy_j_interval": joule["interval"],
                    "progress_j": joule["progress"],
                    "cost_j": joule["cost"],
                    "progress_j_interval": joule["progress_interval"],
                    "cost_j_interval": joule["cost_interval"],
                    "provenance": str(Provenance.MODELLED if modelled else Provenance.ESTIMATED),
                }
                if modelled:
                    row |= _modelled(row)
                elif kind != kinds.UNIDENTIFIED:
                    row |= {
                        "verdict": joule["verdict"],
                        "cost_verdict": joule["cost_verdict"],
                        "progress_verdict": joule["progress_verdict"],
                    }
                if kind == kinds.UNIDENTIFIED:
                    row["bounds_j"] = self._bounds(stage, joule)
            if shared_out is not None and (is_told or shared_out is time):
                row["share"], row["share_interval"] = shared_out.share(at)
            rows.append(row)
        return rows

    def _bounds(self, stage: str, joule: Mapping[str, Any]) -> list[float]:
        """How much the refused phases can have gained at least and at most."""
        halves = []
        for side in (self._base, self._other):
            joints = [
                trial.stages[stage].unidentified for trial in side.trials if stage in trial.stages
            ]
            halves.append(
                (
                    fmean([j.energy_j - j.low_j for j in joints] or [0.0]),
                    fmean([j.high_j - j.energy_j for j in joints] or [0.0]),
                )
            )
        (base_low, base_high), (other_low, other_high) = halves
        return [joule["gain"] - base_low - other_high, joule["gain"] + base_high + other_low]


def _modelled(row: Mapping[str, Any]) -> dict[str, Any]:
    """A model's joules have no interval and no verdict."""
    silent = dict.fromkeys(("verdict", "progress_verdict", "cost_verdict"), NO_EVIDENCE)
    return silent | {
        key: None for key in row if key.endswith("interval") and not key.startswith("time")
    }
