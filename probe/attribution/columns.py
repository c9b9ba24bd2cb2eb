"""Which columns of the regression belong to which phase, allocated when a phase is first used.

A phase has K *slices*, equal fractions of each of its instances: power changes inside a
phase (layers, ramps), and one column per phase would be wrong for ever by what it leaves
out. It also has one *count* column, the fractional number of instances, from which
:class:`~solve.DurationModel` makes power that depends on an instance's length, and one *border*
column: what it would add to the energy if power moved later than the phase's begin is marked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .arrays import Ints

UNATTRIBUTED = -1  # the time between spans, a phase like any other
CROWD = -2  # all phases that found no column left
MIXED = -3  # no phase: an interval with several of them
LARGEST = 55  # columns: with the energy 56² numbers per block
_BESIDES = 2  # the count and the border, beside a phase's slices
_MOST_SLICES = 16
_SLICES_PER_CYCLE = 10
_SHORTEST_SLICE_S, _LONGEST_SLICE_S = 0.003, 0.008


def slices(usual_s: float, cycle_s: float, *, fine: bool = False) -> int:
    """How many slices a phase gets, a power of two.

    Slices of 3–8 ms: finer ones cost more in variance than they remove in bias.

    Args:
        usual_s: usual duration of the phase.
        cycle_s: from one of its instances to the next.
        fine: the meter has data enough for the shortest slices.
    """
    length = min(max(cycle_s / _SLICES_PER_CYCLE, _SHORTEST_SLICE_S), _LONGEST_SLICE_S)
    if fine:
        length = _SHORTEST_SLICE_S
    if usual_s <= length:
        return 1
    return min(_MOST_SLICES, 1 << round(math.log2(usual_s / length)))


@dataclass(slots=True)
class Columns:
    """By phase code: its first column, its number of slices, the columns of its count and border.

    ``width`` columns are given away so far.
    """

    first: dict[int, int] = field(default_factory=dict)
    count_of: dict[int, int] = field(default_factory=dict)
    slices_of: dict[int, int] = field(default_factory=dict)
    width: int = 0

    def border_of(self, code: int) -> int:
        """The column of a phase's border."""
        return self.count_of[code] + 1

    def add(self, code: int, wanted: int) -> None:
        """Give a new phase its columns; fewer slices, or a share in CROWD, if few are left."""
        room = LARGEST - self.width - (0 if CROWD in self.first else _BESIDES + 1)
        if room < _BESIDES + 1 and code != CROWD:
            if CROWD not in self.first:
                self.add(CROWD, 1)
            self.first[code], self.count_of[code], self.slices_of[code] = (
                self.first[CROWD],
                self.count_of[CROWD],
                1,
            )
            return
        number = max(1, min(wanted, room - _BESIDES)) if code != CROWD else 1
        self.first[code], self.slices_of[code] = self.width, number
        self.count_of[code] = self.width + number
        self.width += number + _BESIDES

    @property
    def owners(self) -> list[int]:
        """The codes that have columns of their own, in column order."""
        crowd = self.first.get(CROWD, -1)
        own = [c for c, at in self.first.items() if at != crowd or c == CROWD]
        return sorted(own, key=self.first.__getitem__)

    def owner_of(self, code: int) -> int:
        """The code whose columns a phase uses: its own or CROWD."""
        return CROWD if self.first[code] == self.first.get(CROWD, -1) else code

    def slice_columns(self, code: int) -> Ints:
        """The columns of a phase's slices, (slices,)."""
        return np.arange(self.first[code], self.first[code] + self.slices_of[code])
