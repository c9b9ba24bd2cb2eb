"""How far a run had come at every moment, and how good it was: samples, quality, targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..attribution.arrays import Floats, Times
from ..target import Target

Logged = Mapping[str, tuple[Times, Floats]]

UNITS = ("samples", "tokens")
SMOOTHED = 20  # values logged at nearly every step are noise; this many count as one

# Metrics by which a run without a target is judged, best first, and which way is up.
_LOWER = (
    "loss",
    "perplexity",
    "ppl",
    "nll",
    "error",
    "err",
    "bpb",
    "bits",
    "mse",
    "mae",
    "rmse",
    "wer",
)
_HIGHER = ("accuracy", "acc", "f1", "auc", "bleu", "score", "map", "iou", "precision", "recall")
_PREFIXES = ("eval_", "val_", "valid_", "validation_", "test_", "")


@dataclass(frozen=True, slots=True)
class Work:
    """Samples trained by each instant (tokens, or steps if neither was logged)."""

    time_ns: Times
    total: Floats
    unit: str

    @classmethod
    def of(cls, begin_ns: int, logged: Logged, steps_ns: Times) -> Work:
        """From what was logged, else from the steps."""
        for unit in UNITS:
            if unit in logged and len(logged[unit][0]):
                time_ns, values = logged[unit]
                order = np.argsort(time_ns, kind="stable")
                counted = np.cumsum(np.nan_to_num(np.maximum(values[order], 0.0)))
                return cls(_from(begin_ns, time_ns[order]), np.append(0.0, counted), unit)
        return cls(
            _from(begin_ns, steps_ns), np.arange(len(steps_ns) + 1, dtype=np.float64), "steps"
        )

    @property
    def all(self) -> float:
        """What was done until the end."""
        return float(self.total[-1])

    def by(self, time_ns: Times) -> Floats:
        """Samples whose training had been logged by some instants."""
        return np.asarray(self.total[np.searchsorted(self.time_ns, time_ns, "right") - 1])

    def when(self, samples: float) -> int:
        """The instant by which so many were trained; linear between two that are known."""
        return round(float(np.interp(samples, self.total, self.time_ns)))


@dataclass(frozen=True, slots=True)
class Quality:
    """A metric against samples trained."""

    metric: str
    higher: bool
    samples: Floats
    values: Floats

    @classmethod
    def of(cls, metric: str, higher: bool, logged: Logged, work: Work) -> Quality | None:
        """None if the run did not log it. An evaluation's metric may bear the prefix ``eval_``."""
        for name in (metric, f"eval_{metric}"):
            if name in logged:
                time_ns, values = logged[name]
                finite = np.isfinite(values)
                if not finite.any():
                    continue
                time_ns, values = time_ns[finite], values[finite]
                if 2 * len(values) >= len(work.total) - 1 and len(values) > SMOOTHED:
                    values = np.convolve(values, np.full(SMOOTHED, 1 / SMOOTHED), "valid")
                    time_ns = time_ns[SMOOTHED - 1 :]
                return cls(name, higher, work.by(time_ns), values)
        return None

    @property
    def last(self) -> float:
        """The final one."""
        return float(self.values[-1])

    def at(self, samples: float) -> float:
        """By linear interpolation; the first or last value outside."""
        return float(np.interp(samples, self.samples, self.values))

    def reaches(self, value: float, *, confirmed: bool = False) -> float | None:
        """Samples at which the metric first crosses a value; None if it never does.

        Args:
            confirmed: only if the next value meets it too, unless it is the last one.
        """
        met = self.values >= value if self.higher else self.values <= value
        if confirmed and len(met) > 1:
            met = met & np.append(met[1:], True)
        places = np.flatnonzero(met)
        if not len(places):
            return None
        at = int(places[0])
        if at == 0 or self.values[at] == self.values[at - 1]:
            return float(self.samples[at])
        share = (value - self.values[at - 1]) / (self.values[at] - self.values[at - 1])
        # A value that met the target unconfirmed lies beyond it: then the later one counts.
        share = share if 0 <= share <= 1 else 1.0
        return float(self.samples[at - 1] + share * (self.samples[at] - self.samples[at - 1]))

    def stopped_at(self, target: Target) -> bool:
        """Whether the run ended because it met the target: nothing follows the confirmation."""
        met = [target.met(float(value)) for value in self.values]
        if True not in met:
            return False
        return len(met) - met.index(True) <= 2 and all(met[met.index(True) :])


def judged_by(logged: Logged) -> tuple[str, bool] | None:
    """(metric, whether higher is better) of a run without a target; None if no name is known."""
    for prefix in _PREFIXES:
        for name in (*_LOWER, *_HIGHER):
            if prefix + name in logged and np.isfinite(logged[prefix + name][1]).any():
                return prefix + name, name in _HIGHER
    return None


def is_of_evaluation(metric: str) -> bool:
    """Whether a metric's name says that it is of an evaluation."""
    return metric.startswith(tuple(prefix for prefix in _PREFIXES if prefix))


def _from(begin_ns: int, time_ns: Times) -> Times:
    return np.maximum.accumulate(np.append(np.int64(begin_ns), time_ns).astype(np.int64))
