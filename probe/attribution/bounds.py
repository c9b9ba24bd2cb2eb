"""Bounds for a phase whose energy cannot be known: the least and the most it can have been.

Powers lie between nothing and the most that the device can draw; the total is measured; and
along every direction that the data determine the powers are where the data put them, within
three standard errors. A direction in which the phases' times vary only because update instants
are dated with errors determines nothing: in a locked step that is all the variation there is.
What is left is a linear programme per phase and side (HiGHS, scipy).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .estimate import Estimate
from .solve import FREE

Floats = npt.NDArray[np.float64]

_ERRORS = 3.0
_DETERMINED = 1e-7  # of the largest eigenvalue: less is rounding
_MOST_BLUR = 0.1  # of a direction's variation: more is not the phases' own


def bounds(estimate: Estimate, code: int, highest_w: float) -> tuple[float, float] | None:
    """(least, most) energy of a phase in J; None if the constraints contradict each other."""
    from scipy.optimize import linprog

    normal = estimate.fitted
    time_s, total_j = normal.time_s, estimate.mixed_j
    rows, limits = _determined(estimate)
    place = estimate.codes.index(code)
    wanted = np.where(normal.owner == place, time_s, 0.0)
    highest = max(highest_w, total_j / max(float(time_s.sum()), 1e-12))
    found = []
    for sign in (1.0, -1.0):
        answer = linprog(
            sign * wanted, A_ub=rows, b_ub=limits, A_eq=time_s[None], b_eq=[total_j],
            bounds=[(0.0, highest)] * len(time_s),
        )
        if answer.status != 0:
            return None
        found.append(sign * float(answer.fun or 0.0))
    direct = float(estimate.direct_j[place])
    return found[0] + direct, found[1] + direct + highest * float(estimate.rest_s[place])


def _determined(estimate: Estimate) -> tuple[Floats, Floats]:
    """A p ≤ b for the directions that the normal equations determine."""
    normal = estimate.fitted
    assert not np.any(normal.owner == FREE)
    scale = np.sqrt(np.maximum(np.diag(normal.gram), 1e-30))
    size, direction = np.linalg.eigh(normal.gram / np.outer(scale, scale))
    ridge = 1e-9 * float(np.trace(normal.gram)) / len(scale)
    mean = float(normal.moment.sum() / max(float(normal.gram.sum()), 1e-30))
    plain = np.linalg.solve(normal.gram + ridge * np.eye(len(scale)), normal.moment + ridge * mean)
    rows, limits = [], []
    usual = np.full(len(scale), estimate.mixed_j / max(float(normal.time_s.sum()), 1e-12))
    for k in np.flatnonzero(size > _DETERMINED * size[-1]):
        vector = direction[:, k] / scale
        blur = float(vector @ estimate.blur @ vector) / float(size[k])
        if blur > _MOST_BLUR:
            continue
        row = direction[:, k] * scale
        at = float(row @ plain)
        error = _ERRORS * float(np.sqrt(estimate.powers.sigma2 / size[k]))
        error += max(0.0, blur) * abs(at - float(row @ usual))  # blur draws it to the mean
        rows += [row, -row]
        limits += [at + error, error - at]
    return np.array(rows), np.array(limits)
