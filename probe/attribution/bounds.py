"""Bounds for a phase whose energy cannot be known: the least and the most it can have been.

Powers lie between nothing and the most that the device can draw; the total is measured; and
along every direction that the data determine the powers are where the data put them, within
three standard errors. A direction in which the phases' times vary only because update instants
are dated with errors determines nothing: in a locked step that is all the variation there is.
What is left is a linear programme per phase and side (HiGHS, scipy).
"""

from __future__ import annotations

import numpy as np

from .arrays import Floats
from .estimate import Estimate

_ERRORS = 3.0
_WIDEST = 16.0  # times that; what contradicts itself even then has no bounds
_DETERMINED = 1e-7  # of the largest eigenvalue: less is rounding
_MOST_BLUR = 0.1  # of a direction's variation: more is not the phases' own


def bounds(estimate: Estimate, code: int, highest_w: float) -> tuple[float, float] | None:
    """The least and the most energy that a phase can have used, in J.

    Contradictions within the errors that were assumed say that these were too small: they are
    doubled until all fits, and once more.

    Args:
        code: of the phase.
        highest_w: the most that the device can draw.

    Returns:
        (least, most), or None if the constraints contradict each other, or powers have changed.
    """
    if len(estimate.solutions) > 1:
        return None
    normal = estimate.solution.slices
    place = estimate.codes.index(code)
    wanted = np.where(normal.owner == place, normal.time_s, 0.0)
    mean_w = estimate.mixed_j / max(float(normal.time_s.sum()), 1e-12)
    highest = max(highest_w, mean_w)
    direction, at, error = _determined(estimate)
    extremes, widened = None, 1.0
    while extremes is None and widened <= _WIDEST:
        extremes = _least_and_most(estimate, wanted, highest, direction, at, widened * error)
        widened *= 2
    if extremes is None:
        return None
    if widened > 2:
        extremes = (
            _least_and_most(estimate, wanted, highest, direction, at, widened * error) or extremes
        )
    direct = float(estimate.direct_j[place])
    return extremes[0] + direct, extremes[1] + direct + highest * float(estimate.rest_s[place])


def _least_and_most(
    estimate: Estimate,
    wanted: Floats,
    highest_w: float,
    direction: Floats,
    at: Floats,
    error: Floats,
) -> tuple[float, float] | None:
    """Extremes of Σ wanted·p over powers p that fit the constraints; None if none does.

    Args:
        wanted: seconds of each slice, (p,); 0 for slices of other phases.
        highest_w: no power is higher.
        direction: k directions that the data determine, (k, p).
        at, error: direction·p lies within ``at`` ± ``error``, (k,) each.
    """
    from scipy.optimize import linprog

    time_s = estimate.solution.slices.time_s
    # The total of a meter that looks at a part of each period is no constraint: it is a sample.
    total = {} if estimate.solution.windowed else {"A_eq": time_s[None], "b_eq": [estimate.mixed_j]}
    extremes = []
    for sign in (1.0, -1.0):
        answer = linprog(
            sign * wanted,
            A_ub=np.concatenate([direction, -direction]),
            b_ub=np.concatenate([at + error, error - at]),
            bounds=[(0.0, highest_w)] * len(time_s),
            **total,
        )
        if answer.status != 0:
            return None
        extremes.append(sign * float(answer.fun or 0.0))
    return extremes[0], extremes[1]


def _determined(estimate: Estimate) -> tuple[Floats, Floats, Floats]:
    """What the normal equations determine.

    Returns:
        (k directions (k, p), where the powers lie along each (k,), the error of that (k,)).
    """
    normal, noise = estimate.solution.slices, estimate.solution.fitted.sigma2
    slices = estimate.solution.unknowns.owner >= 0
    blurred = estimate.solution.blur()[np.ix_(slices, slices)]
    scale = np.sqrt(np.maximum(np.diag(normal.gram), 1e-30))
    size, direction = np.linalg.eigh(normal.gram / np.outer(scale, scale))
    ridge = 1e-9 * float(np.trace(normal.gram)) / len(scale)
    mean = float(normal.moment.sum() / max(float(normal.gram.sum()), 1e-30))
    plain = np.linalg.solve(normal.gram + ridge * np.eye(len(scale)), normal.moment + ridge * mean)
    usual = np.full(len(scale), estimate.mixed_j / max(float(normal.time_s.sum()), 1e-12))
    rows, places, errors = [], [], []
    for k in np.flatnonzero(size > _DETERMINED * size[-1]):
        vector = direction[:, k] / scale
        blur = float(vector @ blurred @ vector) / float(size[k])
        if blur > _MOST_BLUR:
            continue
        row = direction[:, k] * scale
        at = float(row @ plain)
        error = _ERRORS * float(np.sqrt(noise / size[k]))
        error += max(0.0, blur) * abs(at - float(row @ usual))  # blur draws it to the mean
        rows.append(row)
        places.append(at)
        errors.append(error)
    return np.array(rows).reshape(-1, len(scale)), np.array(places), np.array(errors)
