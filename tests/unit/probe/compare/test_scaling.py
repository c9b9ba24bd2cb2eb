"""Throughput, efficiency, joules per sample and communication by the number of ranks."""

from __future__ import annotations

import pytest

from probe.compare.run_record import LATE, Stage, Trial, Use
from probe.compare.scaling import scaling
from probe.model import Provenance


def trial(
    ranks: int,
    seconds: float,
    joules: float,
    waiting_s: float = 0.0,
    energy: Provenance = Provenance.MEASURED,
) -> Trial:
    phases = {"forward": Use(seconds - waiting_s, joules)}
    if waiting_s:
        phases["communication"] = Use(waiting_s, 0.0)
    return Trial(
        id=f"{ranks}-{seconds}",
        ranks=ranks,
        energy=energy,
        stages={LATE: Stage(samples=1000.0, phases=phases)},
    )


def test_one_row_per_number_of_ranks() -> None:
    single, two, four = scaling(
        [],
        [
            trial(1, 100.0, 5000.0),
            trial(1, 100.0, 6000.0),
            trial(2, 60.0, 7000.0, 6.0),
            trial(4, 50.0, 8000.0, energy=Provenance.MODELLED),
        ],
    )
    assert [row.ranks for row in (single, two, four)] == [1, 2, 4]
    assert (single.runs, single.throughput, single.efficiency) == (2, 10.0, 1.0)
    assert two.throughput == pytest.approx(1000 / 60)
    assert two.efficiency == pytest.approx(100 / 60 / 2)
    assert four.efficiency == pytest.approx(100 / 50 / 4)
    assert single.energy_per_sample_j == pytest.approx(5.5)
    assert four.energy_per_sample_j is None  # a model's
    assert two.communication == pytest.approx(0.1)
    assert single.communication is None and four.communication is None


def test_the_base_counts_unless_the_other_side_scales_by_itself() -> None:
    base = [trial(1, 100.0, 5000.0)]
    assert [row.ranks for row in scaling(base, [trial(4, 50.0, 8000.0)])] == [1, 4]
    rows = scaling(base, [trial(2, 60.0, 1.0), trial(4, 50.0, 8000.0)])
    assert [row.ranks for row in rows] == [2, 4] and rows[0].efficiency == 1.0
