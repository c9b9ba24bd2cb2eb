"""Updates whose date is contradicted by the energy before and after them.

An update that is dated too early or too late moves energy from one interval to the next: the
energy counted up to it is off, that up to its neighbours is not. Without it the two intervals
become one, whose energy is right.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..arrays import Bools, Floats

_SIDE = 5  # intervals on either side that an update is held against
_CLEAR = 6.0  # standard errors
_FEWEST, _REMEMBERED = 24, 256
_SIGMA = 1.4826  # of a normal distribution over its median absolute deviation


class MisdatedUpdates:
    """Finds them batch by batch; what is usual is learned from the batches before."""

    def __init__(self) -> None:
        """Nothing is known yet of what is usual."""
        self._usual_j = np.empty(0)

    def find(self, residual_j: Floats, judged: Bools) -> Bools:
        """Which of n + 1 successive updates are dated wrongly; (n + 1,).

        Args:
            residual_j: what each interval holds more than the model says, in J, (n,).
            judged: the intervals that the model holds for, (n,).
        """
        out = np.zeros(len(residual_j) + 1, np.bool_)
        if judged.sum() < 2:
            return out
        centred = np.where(judged, residual_j - np.median(residual_j[judged]), 0.0)
        total = np.concatenate([np.zeros(_SIDE + 1), np.cumsum(centred)])
        total = np.append(total, np.full(_SIDE, total[-1]))
        around = sliding_window_view(total, 2 * _SIDE + 1)
        here = around[:, _SIDE]
        # A phase that draws other power than is known so far is a step: one of these stays small.
        before = here - np.median(around[:, :_SIDE], axis=1)
        after = here - np.median(around[:, _SIDE + 1 :], axis=1)
        off_j = np.where(before * after > 0, np.minimum(np.abs(before), np.abs(after)), 0.0)
        between = np.flatnonzero(judged[:-1] & judged[1:]) + 1
        usual_j = np.append(self._usual_j, np.abs(before)[between])[-_REMEMBERED:]
        self._usual_j = usual_j
        if len(usual_j) >= _FEWEST:
            out[between] = off_j[between] > _CLEAR * _SIGMA * float(np.median(usual_j))
        return out
