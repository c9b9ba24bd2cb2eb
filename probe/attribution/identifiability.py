"""When may a phase's energy be stated? Per phase: resolved, weak, or refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..model import Status

OCCUPIED = 0.55
RESOLVED_HALF, WEAK_HALF = 0.25, 0.75  # half-width of the interval over the energy
_FEWEST_VISITS = 40


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one phase's energy; energies in J, the rest ratios."""

    energy_j: float
    half_j: float  # half-width of the 95 % interval
    timing_j: float  # shift by the timing guard
    resolution: float  # 1 − variance / prior variance
    occupancy: float | None
    misfit: bool = False  # the readings are not those of a sensor that we know
    fits_badly: bool = False  # perhaps by chance
    dates_waver: bool = False  # all of them together: that alone makes a misfit
    response_unknown: bool = False  # several explain the readings: the joules hang on which it is
    floor_j: float = 0.0  # a half-width is held against the energy, or this if it is more


def occupancy(visits: npt.NDArray[np.int64] | None) -> float | None:
    """Share of a phase's cycle that updates visited: exp(entropy of the histogram) / bins.

    A step that is locked to the sensor is always seen at the same place, and then its
    phases cannot be told apart however long it runs.

    Args:
        visits: how many updates fell into each part of the cycle, (bins,).

    Returns:
        A number in (0, 1]; None if there were too few visits to say.
    """
    if visits is None or visits.sum() < _FEWEST_VISITS:
        return None
    share = visits[visits > 0] / visits.sum()
    return float(np.exp(-(share * np.log(share)).sum()) / len(visits))


def verdict(evidence: Evidence) -> tuple[Status, str]:
    """Judge whether a phase's energy may be stated.

    Returns:
        (status, name of the test that failed; empty if none did).
    """
    energy = max(abs(evidence.energy_j), evidence.floor_j)
    timing = evidence.timing_j / energy if energy > 0 else np.inf
    half = evidence.half_j / energy if energy > 0 else np.inf
    if evidence.energy_j <= 0 and not evidence.floor_j:
        return Status.NOT_IDENTIFIABLE, "energy"
    if evidence.occupancy is not None and evidence.occupancy < OCCUPIED:
        return Status.NOT_IDENTIFIABLE, "locked"
    misfit = evidence.misfit
    if misfit and not evidence.dates_waver:
        return Status.NOT_IDENTIFIABLE, "fit"
    if evidence.resolution >= 0.95 and timing <= 0.25 and half <= RESOLVED_HALF:
        unknown = "response" if evidence.response_unknown else ""
        rough = "fit" if misfit or evidence.fits_badly else unknown
        return (Status.WEAK, rough) if rough else (Status.RESOLVED, "")
    failed = "interval" if half > RESOLVED_HALF else "timing" if timing > 0.25 else "resolution"
    if evidence.resolution >= 0.8 and timing <= 0.5 and half <= WEAK_HALF:
        return Status.WEAK, failed
    return Status.NOT_IDENTIFIABLE, failed
