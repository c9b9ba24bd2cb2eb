"""The real recorder, store and report in virtual time, beside a workload of known energy."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from probe.model import RunStatus
from probe.recorder import loop, sealer
from probe.recorder.spawn import claim
from probe.recorder.upkeep import folder, keep
from probe.report.build import report_of
from probe.report.build.report import build
from probe.store import segments
from probe.store.reader import RunReader
from tests.fakes import processes
from tests.fakes.virtual_run import VirtualRun

SECONDS = 60.0
BOUND_S = 5.0  # of a processor; it takes about half a second


class Killed(BaseException):
    """What ends a recorder as SIGKILL does: nothing of it runs any more."""


def report_dict(run: VirtualRun) -> dict[str, Any]:
    return report_of(run.path).to_dict()


def check_total(report: dict[str, Any], run: VirtualRun) -> None:
    truth_j = sum(run.truth_j().values())
    low, high = report["total"]["energy_j_interval"]
    assert low <= truth_j <= high
    assert report["total"]["energy_j"] == pytest.approx(truth_j, rel=0.002)


def check_phases(report: dict[str, Any], run: VirtualRun) -> None:
    rows = {row["phase"]: row for row in report["phases"]}
    for phase, truth_j in run.truth_j().items():
        low, high = rows[phase]["energy_j_interval"]
        assert low <= truth_j <= high, phase


def test_a_minute_of_known_phases_takes_half_a_second(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, SECONDS)
    wall, cpu = time.perf_counter(), time.process_time()
    run.record()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{SECONDS:.0f} s of data in {wall:.2f} s, {cpu:.2f} s of them on a processor")
    assert cpu < BOUND_S
    report = report_dict(run)
    assert report["run"]["status"] == RunStatus.FINISHED
    assert report["run"]["duration_s"] == pytest.approx(float(run.trace.edges_s[-1]), abs=1e-6)
    assert report["run"]["steps"] == run.steps and report["gaps"]["edges_lost"] == 0
    check_total(report, run)
    check_phases(report, run)


def test_virtual_time_repeats_itself(tmp_path: Path) -> None:
    reports = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        run = VirtualRun(tmp_path / name, 30.0)
        run.record()
        reports.append(report_dict(run))
    for part in ("total", "phases", "power", "gaps"):
        assert reports[0][part] == reports[1][part]


@pytest.mark.dies_in_process
@pytest.mark.parametrize("death", ["killed", "fenced off"])
def test_a_recorder_takes_over(death: str, tmp_path: Path) -> None:
    """1.5 s later; the ring keeps the edges, the counter the energy."""
    run = VirtualRun(tmp_path, SECONDS)
    if death == "killed":
        run.clock.call_after(25.0, _kill)
        with pytest.raises(Killed):
            run.record()
        assert claim(run.path, 2)
    else:
        run.clock.call_after(25.0, lambda: claim(run.path, 2))
        run.record()
        assert RunReader(run.path).meta["status"] == RunStatus.RUNNING
    run.clock.drop_sensors()
    run.clock.sleep(1.5)
    run.record(epoch=2)
    report = report_dict(run)
    assert report["run"]["status"] == RunStatus.FINISHED
    assert report["run"]["steps"] == run.steps and report["gaps"]["edges_lost"] == 0
    reasons = [gap.reason for gap in RunReader(run.path).gaps()]
    assert reasons.count("the recorder was restarted") == 1
    check_total(report, run)


@pytest.mark.parametrize("late_s", [0.0, 5.0])
def test_a_recorder_that_had_not_begun_is_replaced(late_s: float, tmp_path: Path) -> None:
    """Nothing is missing where the next one is as early; else the hole begins with the run."""
    run = VirtualRun(tmp_path, SECONDS)
    assert claim(run.path, 1)
    run.clock.sleep(late_s)
    run.record(epoch=2)
    holes = [gap for gap in RunReader(run.path).gaps() if gap.what == "recorder"]
    assert [round((gap.end_ns - gap.begin_ns) / 1e9) for gap in holes] == ([5] if late_s else [])


def _kill() -> None:
    raise Killed


class WatchedQueue:
    """A queue of the thread that seals, which lives in real time; tells when that has done all."""

    def __init__(self, queues: list[WatchedQueue]) -> None:
        self._entries: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.is_done = True
        queues.append(self)

    def put(self, entry: Any) -> None:
        with self._lock:
            self.is_done = False
            self._entries.put(entry)

    def get(self) -> Any:
        with self._lock:
            self.is_done = self._entries.empty()
        return self._entries.get()


def await_sealers(queues: list[WatchedQueue]) -> None:
    assert queues and processes.wait_until(lambda: all(each.is_done for each in queues))


def test_old_segments_are_thinned_while_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With shorter times: the report of the whole run is as exact as without, and says so."""
    (tmp_path / "whole").mkdir()
    whole = VirtualRun(tmp_path / "whole", 120.0)
    whole.record()
    monkeypatch.setattr(segments, "ROTATE_SECONDS", 5.0)
    monkeypatch.setattr(loop, "TIDY_S", 10.0)
    monkeypatch.setattr(folder, "KEPT_S", dict.fromkeys(folder.KEPT_S, 20.0))
    monkeypatch.setattr(keep, "FIRST_STEPS", 20)
    queues: list[WatchedQueue] = []
    made = SimpleNamespace(SimpleQueue=lambda: WatchedQueue(queues))
    monkeypatch.setattr(sealer, "queue", made)
    run = VirtualRun(tmp_path, 120.0)
    for at_s in range(15, 120, 15):
        run.clock.call_after(at_s, lambda: await_sealers(queues))
    run.record()
    thinned = list(run.path.rglob("cold/*-thin.parquet"))
    assert {path.name.partition("-")[0] for path in thinned} == {"samples", "edges", "ledger"}
    report = report_dict(run)
    assert report["run"]["steps"] == run.steps and report["gaps"]["edges_lost"] == 0
    check_total(report, run)
    for part in ("total", "phases", "gaps"):
        assert report[part] == report_dict(whole)[part]
    assert len([line for line in report["warnings"] if "thinned" in line]) == 1
    again = build(run.path, recompute=True).to_dict()
    assert again["total"] == report["total"]
    assert any("--recompute has not enough left" in line for line in again["warnings"])
    early = build(run.path, part_s=(10.0, 50.0)).to_dict()
    assert early["total"]["energy_j"] == pytest.approx(
        build(whole.path, part_s=(10.0, 50.0)).to_dict()["total"]["energy_j"], rel=0.01
    )
    assert any("their other time is unattributed" in line for line in early["warnings"])


def test_a_trainer_that_is_late_is_waited_for_half_a_minute(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, SECONDS, joins=False)
    begin_s = run.clock.monotonic_s()
    run.record()
    assert run.clock.monotonic_s() - begin_s == pytest.approx(30.0, abs=1.0)
    assert "no process of the job was seen" in str(RunReader(run.path).meta["ended_by"])
