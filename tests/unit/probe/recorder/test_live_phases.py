"""Counters of joules per phase: never falling, adding up, right in the long run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from probe.attribution.columns import UNATTRIBUTED
from probe.attribution.estimate import PhaseEstimate
from probe.model import Status
from probe.recorder.live.phases import LivePhases, _Shares, _StatedPhase

POWERS = {1: 100.0, 2: 400.0}  # watts of two phases that alternate; 5 % of the time is nobody's


def drive(shares, *, seconds=600, first_s=45, every_s=10, error=0.0, seed=0):
    """A run second by second; estimates from ``first_s`` on, wrong by a shrinking share."""
    rng = np.random.default_rng(seed)
    spent = {1: 0.0, 2: 0.0}
    total = 0.0
    history = []
    for second in range(seconds):
        spent[1] += 0.35
        spent[2] += 0.6
        total = spent[1] * 100 + spent[2] * 400 + (second + 1) * 0.05 * 60
        if second >= first_s and (second - first_s) % every_s == 0:
            stated = {
                code: _StatedPhase(
                    PhaseEstimate(
                        spent[code] * watts * (1 + error * rng.normal() / (second / first_s)),
                        0.0,
                        0.0,
                        Status.RESOLVED,
                    ),
                    spent[code],
                )
                for code, watts in POWERS.items()
            }
            shares.state(stated, spent)
        shares.hand_out(total, spent)
        history.append({**shares.given})
        assert sum(shares.given.values()) == pytest.approx(total)
    return spent, total, history


@pytest.mark.parametrize("error", [0.0, 0.1])
def test_counters_never_fall_and_their_rates_are_the_watts(error):
    shares = _Shares()
    _, _, history = drive(shares, error=error)
    for before, after in itertools.pairwise(history):
        assert all(after[code] >= joules - 1e-9 for code, joules in before.items())
    for code, watts, share in ((1, 100.0, 0.35), (2, 400.0, 0.6), (UNATTRIBUTED, 60.0, 0.05)):
        rate = (history[-1][code] - history[299][code]) / 300
        assert rate == pytest.approx(watts * share, rel=0.02 + 0.2 * error, abs=4.0 * (error > 0))


def test_what_was_used_before_the_first_estimate_is_nobodys():
    shares = _Shares()
    drive(shares, seconds=46)
    assert shares.given[1] == shares.given[2] == 0.0
    shares.hand_out(shares.total_j + 100.0, {1: 46 * 0.35 + 0.5, 2: 46 * 0.6})
    assert shares.given[1] == pytest.approx(50.0)  # half a second at its power


def test_an_estimate_that_falls_takes_nothing_back():
    shares = _Shares()
    spent = {1: 10.0}
    shares.state({1: _StatedPhase(PhaseEstimate(1000.0, 0, 0, Status.RESOLVED), 10.0)}, spent)
    shares.hand_out(1000.0, spent)
    shares.hand_out(2000.0, {1: 20.0})
    given = shares.given[1]
    assert given == pytest.approx(1000.0)
    shares.state({1: _StatedPhase(PhaseEstimate(1500.0, 0, 0, Status.RESOLVED), 20.0)}, {1: 20.0})
    shares.hand_out(2100.0, {1: 21.0})
    assert shares.given[1] == given
    assert shares.given[UNATTRIBUTED] == pytest.approx(1100.0)


def test_a_meter_that_starts_anew_hands_out_nothing():
    shares = _Shares()
    shares.hand_out(100.0, {})
    shares.hand_out(40.0, {})
    assert dict(shares.given) == {UNATTRIBUTED: 100.0}


def test_between_two_estimates_a_phase_keeps_its_share(monkeypatch):
    """The meter goes on, and with it each phase at its power; start-up is over."""
    live = LivePhases()
    stated = {
        1: _StatedPhase(PhaseEstimate(24_000.0, 22_000.0, 26_000.0, Status.RESOLVED), 60.0),
        2: _StatedPhase(PhaseEstimate(3_500.0, 3_000.0, 4_000.0, Status.WEAK), 35.0),
        3: _StatedPhase(PhaseEstimate(500.0, 400.0, 600.0, Status.WEAK), 5.0),
    }
    live._rank["gpu0"], live._shares["gpu0"] = 0, _Shares()
    live._shares["gpu0"].state(stated, {1: 60.0, 2: 35.0, 3: 5.0})
    monkeypatch.setattr(live, "seconds", lambda _rank: {1: 120.0, 2: 70.0, 3: 5.0})
    total_j = 2 * 27_500.0 + 500.0
    rows = live.phases({"gpu0": total_j}, {0: {1: "forward", 2: "data", 3: "startup"}})
    by_phase = {row.phase: row for row in rows}
    assert by_phase["forward"].energy_j == 48_000.0
    assert (by_phase["forward"].low_j, by_phase["forward"].high_j) == (44_000.0, 52_000.0)
    assert by_phase["startup"].energy_j == 500.0
    assert sum(row.energy_j or 0.0 for row in by_phase.values()) == pytest.approx(total_j)
