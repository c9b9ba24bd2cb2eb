"""How likely many responses are, side by side, and which of them lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..response.response import Response
from .trial import Slices, score, whitened

SCAN_GAIN = 0.25
_APART_S, _APART_TAU_S = 0.006, 0.03
_BASINS, _WORST_BASIN = 3, 60.0

Points = Sequence[tuple[float, Response]]
"""Responses, each after its score: −2 ln of how likely it is."""


def scan(slices: Slices, responses: Sequence[Response]) -> list[tuple[float, Response]]:
    """(evidence, response) of each."""
    joules = slices.joules[:, None]
    tables = [np.concatenate([joules, slices.rows(r)], axis=1) for r in responses]
    # All side by side: the filter costs about the same for a wide row as for a narrow one.
    white = whitened(np.concatenate(tables, axis=1), SCAN_GAIN)
    white = white.reshape(len(white), len(responses), -1).transpose(1, 0, 2)
    sums, total = white.swapaxes(-1, -2) @ white, float(joules.sum())
    scores = np.min([score(sums, white.shape[1], u, total) for u in slices.models], axis=0)
    return list(zip(scores.tolist(), responses, strict=True))


def wins_in_both_halves(slices: Slices, response: Response, other: Response) -> bool:
    """True if a response is likelier than another in the first half of the stretch and the last."""
    stretch = slices.stretch
    place = np.arange(len(stretch.usable))
    for half in (place < len(place) // 2, place >= len(place) // 2):
        part = replace(slices, stretch=replace(stretch, usable=stretch.usable & half))
        (own_score, _), (other_score, _) = scan(part, [response, other])
        if own_score > other_score:
            return False
    return True


def best(points: Points) -> tuple[float, Response]:
    """The likeliest of them, with its score."""
    return min(points, key=lambda p: p[0])


def basins(points: Points) -> list[Response]:
    """The best points that are apart from each other in mean delay or lag."""
    chosen: list[Response] = []
    ordered = sorted(points, key=lambda p: p[0])
    for cost, response in ordered:
        if cost > ordered[0][0] + _WORST_BASIN or len(chosen) == _BASINS:
            break
        if all(
            abs(response.mean_s - c.mean_s) > _APART_S
            or abs(response.tau_s - c.tau_s) > _APART_TAU_S
            or abs(response.part_s - c.part_s) > _APART_S
            for c in chosen
        ):
            chosen.append(response)
    return chosen
