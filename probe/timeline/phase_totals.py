"""How long and how often a rank was in each phase, counted as its spans come or all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..model import Phase
from ..ring.layout import Code
from ..units import NS_PER_S
from .optimizer_steps import OptimizerSteps
from .span_table import SpanTable
from .step_times import StepTimes

_BESIDE = 0.01  # share of all seconds that threads beside the first may have without a word


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """What one rank's spans come to, by phase code.

    ``follows[a, b]`` is how often phase b came right after phase a.
    """

    rank: int
    names: Mapping[int, str]
    seconds: Mapping[int, float]
    counts: Mapping[int, int]
    follows: Mapping[tuple[int, int], int]
    steps: int
    inferred_s: float  # of forward, where no call of a module was heard
    step_times: StepTimes | None = None
    optimizers: OptimizerSteps = field(default_factory=OptimizerSteps)
    threads: int = 1  # whose spans these are: several at a time have more seconds than passed
    beside_s: float = 0.0  # of all seconds, those of threads beside the first
    first_s: Mapping[int, float] = field(default_factory=dict)  # of the first visit of each phase

    @property
    def in_threads(self) -> bool:
        """Whether threads at the same time matter: no meter can tell whose joules are whose."""
        return self.beside_s > _BESIDE * sum(self.seconds.values())

    def and_threads(self, others: Sequence[PhaseTotals]) -> PhaseTotals:
        """Together with other threads of the rank; what follows what stays the first one's."""
        names = dict(self.names)
        seconds, counts = dict(self.seconds), Counter(self.counts)
        code_of = {name: code for code, name in names.items()}
        code_of |= {self.name(code): code for code in seconds}
        for other in others:
            for code, spent_s in other.seconds.items():
                name = other.name(code)
                own = code_of.setdefault(name, max(names) + 1)
                names[own] = name
                seconds[own] = seconds.get(own, 0.0) + spent_s
                counts[own] += other.counts.get(code, 0)
        return replace(
            self,
            names=names,
            seconds=seconds,
            counts=dict(counts),
            inferred_s=self.inferred_s + sum(other.inferred_s for other in others),
            threads=1 + len(others),
            beside_s=sum(sum(other.seconds.values()) for other in others),
        )

    def name(self, code: int) -> str:
        """Name of the phase with a code."""
        return self.names.get(code, str(Phase.OTHER))


@dataclass(slots=True)
class PhaseCounter:
    """Sums up spans for :class:`PhaseTotals`."""

    time_ns: Counter[int] = field(default_factory=Counter)
    counts: Counter[int] = field(default_factory=Counter)
    follows: Counter[tuple[int, int]] = field(default_factory=Counter)
    inferred_ns: int = 0
    first_ns: Counter[int] = field(default_factory=Counter)
    _last: int | None = None

    def take(self, table: SpanTable) -> None:
        """Take spans that follow those before; what is outside the watched block is no phase."""
        table = table.take(table.code != Code.OUTSIDE)
        if not len(table):
            return
        code = table.code
        length = table.end_ns - table.begin_ns
        for phase in np.unique(code).tolist():
            spans = code == phase
            self.time_ns[phase] += int(length[spans].sum())
            if self.counts[phase] <= 1:  # a visit may be of several spans
                visit = self.counts[phase] + np.cumsum(table.entered[spans])
                self.first_ns[phase] += int(length[spans][visit <= 1].sum())
            self.counts[phase] += int(table.entered[spans].sum())
        chain = code if self._last is None else np.concatenate([[self._last], code])
        changed = chain[1:] != chain[:-1]
        pairs = (chain[:-1][changed].astype(np.int64) << 16) | chain[1:][changed]  # codes: 16 bits
        which, times = np.unique(pairs, return_counts=True)
        for pair, number in zip(which.tolist(), times.tolist(), strict=True):
            self.follows[pair >> 16, pair & 0xFFFF] += number
        self.inferred_ns += int(length[table.inferred].sum())
        self._last = int(code[-1])

    def seconds(self) -> dict[int, float]:
        """Seconds per code."""
        return _seconds(self.time_ns)

    def totals(
        self,
        rank: int,
        names: Mapping[int, str],
        steps: int,
        step_times: StepTimes | None,
        optimizers: OptimizerSteps,
    ) -> PhaseTotals:
        """The totals so far, with what the spans do not tell."""
        return PhaseTotals(
            rank,
            dict(names),
            self.seconds(),
            dict(self.counts),
            dict(self.follows),
            steps,
            self.inferred_ns / NS_PER_S,
            step_times,
            optimizers,
            first_s=_seconds(self.first_ns),
        )


def _seconds(time_ns: Mapping[int, int]) -> dict[int, float]:
    return {code: spent_ns / NS_PER_S for code, spent_ns in sorted(time_ns.items())}
