"""Training steps cut out of a recording of real power: whose energy is it, and without any?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.energy import recorded
from probe.model import Status
from tests.fakes.power_sensors import scheduled_reads


def square_wave(folder: Path) -> Path:
    """60 cycles of 50 ms at 400 W and 48 ms at 100 W; power follows its marks 0.4 ms late."""
    on = np.arange(60) * 0.098
    off = on + 0.050
    meter_s = np.arange(-0.5, 6.5, 0.0002) + 0.00005
    inside = (meter_s - 0.0004) % 0.098 < 0.050
    watts = np.where(inside & (meter_s > 0) & (meter_s < on[-1] + 0.05), 400, 100)
    path = folder / "5050_wave.npz"
    tenths = (watts * 10).astype(np.uint16)
    # The card's own readings: the mean of each 98 ms, so that every one sees the wave alike.
    read_s = np.arange(0.0, 5.9, 0.013)
    refresh_s = np.floor(read_s / 0.098) * 0.098 + 0.03 * (read_s > 3)
    own_w = np.round(250 + 20 * np.sin(refresh_s), 2)
    np.savez(
        path,
        meter_s=meter_s,
        meter_w10=tenths,
        on_s=on,
        off_s=off,
        read_s=read_s,
        power_draw_instant=own_w,
    )
    return path


def test_each_phase_has_the_power_between_its_logged_marks(tmp_path: Path) -> None:
    trace = recorded.steps_of(square_wave(tmp_path), 20.0, np.random.default_rng(0))
    seconds = np.bincount(trace.code, np.diff(trace.border_s))
    assert 20.0 <= trace.border_s[-1] < 20.1
    steps = int((trace.code == 0).sum())
    assert seconds[:3] == pytest.approx([steps * 0.018, steps * 0.032, steps * 0.003])
    truth = trace.truth(0.0, float(trace.border_s[-1]))
    late_j = steps * 0.0004 * 300  # what begins late ends late: forward loses, communication gains
    expected = [
        seconds[0] * 400 - late_j,
        seconds[1] * 400,
        seconds[2] * 100 + late_j,
        seconds[3] * 100,
    ]
    assert truth == pytest.approx(expected, abs=0.3 * late_j)
    assert truth.sum() == pytest.approx(float((trace.watts * np.diff(trace.edges_s)).sum()))


def test_without_a_recording_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHASEWATT_POWER_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["recorded"])
    recorded.main()
    assert capsys.readouterr().out.count("\n") == 1
    path = square_wave(tmp_path)
    assert recorded.recordings([]) == [path] and recorded.recordings(["x.npz"]) == [Path("x.npz")]


def test_polled_power_of_a_recording_tells_its_phases_apart(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    trace = recorded.steps_of(square_wave(tmp_path), 45.0, rng)
    updates = recorded.POLLED["polled"].updates(trace, rng)
    reads = scheduled_reads(*updates, float(trace.edges_s[-1]), rng)
    phases, truth = recorded.estimated(trace, reads, "polled")
    for phase, true in zip(phases[:2], truth, strict=False):  # forward and backward
        assert phase.status is Status.RESOLVED
        assert phase.low_j <= true <= phase.high_j
        assert phase.energy_j == pytest.approx(true, rel=0.05)


def test_a_cards_own_readings_in_step_with_the_wave_are_refused(tmp_path: Path) -> None:
    rows = recorded.as_recorded(square_wave(tmp_path))
    assert [row["turn"] for row in rows] == ["on", "off"]
    assert not [row for row in rows if row["resolved_and_missing"] or row["status"] == "resolved"]
