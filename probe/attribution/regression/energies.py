"""Energies of phases from a solved model, closed to the meter's total."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..arrays import Floats
from .solution import Solution
from .solve import BORDER, RESPONSE, along


class PhaseEnergies:
    """Energies of the mixed intervals per owner (k,), in J, as one model has them."""

    def __init__(self, solution: Solution):
        """Energies of a solved model."""
        self.solution, self._statistics = solution, solution.statistics
        self.model = solution.model

    @cached_property
    def spread(self) -> Floats:
        """Matrix (k, p) from what is solved for to energies."""
        layout = self.solution.unknowns
        matrix = np.zeros((len(self._statistics.columns.owners), len(layout.owner)))
        slices = np.flatnonzero(layout.owner >= 0)
        matrix[layout.owner[slices], slices] = layout.time_s[slices]
        for place in np.flatnonzero(layout.owner == BORDER).tolist():
            late, share = self._late(place)
            phase = layout.border[place]
            matrix[phase, place] += late * layout.total[place]
            for other, part in share.items():
                matrix[other, place] += (1 - late) * part * layout.total[place]
        return matrix

    def _late(self, place: int) -> tuple[float, dict[int, float]]:
        """(how likely power moves late at this border, the phases before it with their shares).

        What a late step leaves out is missing in the phase that begins, what an early one adds
        belongs to the phase before.
        """
        layout, columns = self.solution.unknowns, self._statistics.columns
        owners = columns.owners
        error_s = max(float(self.solution.cov[place, place]) ** 0.5, 1e-6)
        late = 0.5 * (1 + float(np.tanh(1.2 * self.solution.fitted.value[place] / error_s)))
        phase = int(layout.border[place])
        counts: dict[int, float] = {}
        for code, count in self._statistics.before.get(owners[phase], {}).items():
            owner = columns.owner_of(code) if code in columns.first else None
            if owner in owners:
                at = owners.index(owner)
                counts[at] = counts.get(at, 0.0) + count
        total = sum(counts.values())
        return late, {at: count / total for at, count in counts.items()} or {phase: 1.0}

    @cached_property
    def _border_doubt(self) -> Floats:
        """Covariance (k, k) of the energies from not knowing to which side of a border they go."""
        layout = self.solution.unknowns
        number = len(self._statistics.columns.owners)
        out = np.zeros((number, number))
        for place in np.flatnonzero(layout.owner == BORDER).tolist():
            late, share = self._late(place)
            square = self.solution.fitted.value[place] ** 2 + self.solution.cov[place, place]
            doubt = late * (1 - late) * square * layout.total[place] ** 2
            phase = int(layout.border[place])
            for other, part in share.items():
                out[phase, phase] += part * doubt
                out[other, other] += part * doubt
                out[phase, other] -= part * doubt
                out[other, phase] -= part * doubt
        return out

    @cached_property
    def open_cov(self) -> Floats:
        """Covariance of the energies before they are closed to the total, (k, k)."""
        return self.spread @ self.solution.cov @ self.spread.T + self._border_doubt

    @cached_property
    def open_j(self) -> Floats:
        """Energies before they are closed to the total, (k,)."""
        return np.asarray(self.spread @ self.solution.fitted.value)

    @cached_property
    def share(self) -> Floats:
        """Of what the sum of the energies misses of the total, each phase's share, (k,).

        It follows their covariance. What a part-time meter missed it missed of all phases.
        """
        if self.solution.windowed:
            return np.asarray(self.open_j / max(float(self.open_j.sum()), 1e-30))
        return along(self.open_cov)

    @property
    def missed_j(self) -> float:
        """What the meter's own total is more than the energies' sum."""
        return self._statistics.mixed_j - float(self.open_j.sum())

    @cached_property
    def energy_j(self) -> Floats:
        """Energies, closed to the meter's total, (k,)."""
        return np.asarray(self.open_j + self.share * self.missed_j)

    def closed(self, cov: Floats) -> Floats:
        """A covariance (k, k) of open energies after closing."""
        if self.solution.windowed:
            return cov
        keep = np.eye(len(cov)) - np.outer(self.share, np.ones(len(cov)))
        return np.asarray(keep @ cov @ keep.T)

    @property
    def cov(self) -> Floats:
        """Covariance of :attr:`energy_j`, (k, k)."""
        cov = self.closed(self.open_cov)
        if self.solution.windowed:  # closing moves them by the error of the meter's own sample
            shift = self.share * self.missed_j
            cov = cov + np.outer(shift, shift)
        return cov

    @property
    def prior_cov(self) -> Floats:
        """The same, had nothing been seen."""
        return self.closed(self.spread @ self.solution.prior.cov @ self.spread.T)

    def shifted(self, change: Floats) -> Floats:
        """Energies' change (k,), closed, if the right-hand side of the solve changes, (p,)."""
        shift = self.spread @ np.linalg.solve(self.solution.fitted.matrix, change)
        if not self.solution.windowed:
            shift = shift - self.share * float(shift.sum())
        return np.asarray(shift)

    def timing_shift(self) -> Floats:
        """By how much errors of the instants bias the energies, in J, (k,).

        They blur what an interval is taken to hold as a wider kernel would. Where the kernel's
        variance is solved for, it takes that up, and no bias is left.
        """
        if self.model.lane.extras:
            return np.zeros(len(self.open_j))
        return self.shifted(self.solution.blur() @ self.solution.fitted.value / 2)

    def response_cov(self, delay_s: float, lag_s: float) -> Floats:
        """Covariance of the energies from errors of delay and lag that no fit makes smaller."""
        lane = self.model.lane
        if not lane.extras or (delay_s == 0 and lag_s == 0):
            return np.zeros((len(self.energy_j), len(self.energy_j)))
        where = np.flatnonzero(self.solution.unknowns.owner == RESPONSE)[:2]
        rest = np.flatnonzero(self.solution.unknowns.owner != RESPONSE)
        matrix = self.solution.fitted.matrix
        slope = np.zeros((len(matrix), 2))  # of what is solved for along mean and variance
        slope[rest] = -np.linalg.solve(matrix[np.ix_(rest, rest)], matrix[np.ix_(rest, where)])
        energy = self.spread @ slope
        if not self.solution.windowed:
            energy = energy - np.outer(self.share, energy.sum(0))
        tau_ms = 1e3 * max(lane.response.tau_s, 0.002)
        along_delay = 1e3 * delay_s * energy[:, 0]
        along_lag = 1e3 * lag_s * (energy[:, 0] + 2 * tau_ms * energy[:, 1])
        return np.outer(along_delay, along_delay) + np.outer(along_lag, along_lag)
