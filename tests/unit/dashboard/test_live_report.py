"""The report of a run that goes on, from its live page."""

from __future__ import annotations

from pathlib import Path

from dashboard.figures.waste import wasted
from probe.model import Status
from probe.report.build.live import live_report
from probe.store.live import Live, LiveDevice, LivePage, LivePhase, LiveTime
from probe.store.reader import RunReader
from probe.store.runs import create_run


def test_a_phase_that_no_estimate_has_told_apart_has_its_time(tmp_path: Path) -> None:
    """Its joules are among the unresolved ones; without its row waiting would look like none."""
    run = create_run(tmp_path, "20260201-000000-live", shared=False, fields={"name": "live"})
    times = {"forward": 6.0, "backward": 10.0, "data": 4.0}
    page = LivePage(
        0,
        0.0,
        devices=(LiveDevice("gpu0", "nvml", "measured", 1000.0, 50.0, 0, "", "accelerator"),),
        phases=(
            LivePhase("forward", "gpu0", 0.0, 300.0, 280.0, 320.0, "resolved"),
            LivePhase("backward", "gpu0", 0.0, 500.0, 480.0, 520.0, "resolved"),
        ),
        times=tuple(LiveTime(name, 0, seconds, 10) for name, seconds in times.items()),
    )
    report = live_report(RunReader(run), Live((page,)))
    rows = {row.phase: row for row in report.phases}
    assert rows.keys() == {*times, "unresolved"}
    data = rows["data"]
    assert (data.energy_j, data.time_s, data.status) == (None, 4.0, Status.NOT_IDENTIFIABLE)
    assert rows["unresolved"].energy_j == 200.0
    assert wasted(report) == (0.2, "time")
