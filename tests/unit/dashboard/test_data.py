"""Power, levels and steps of a run whose truth is known, at every resolution."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dashboard import urls
from dashboard.data.library import Library
from dashboard.data.phase_power import power_together
from dashboard.data.power import BINS, POINTS, levels, power
from dashboard.data.run import OpenRun
from dashboard.data.steps import anatomy, changes, drift
from probe.errors import StoreError, UnknownRunError
from probe.model import Gap, Provenance
from probe.store import layout
from probe.store.node_files import gap_line
from tests.fakes.stored_group import stored_group
from tests.fakes.stored_run import (
    NS,
    counter,
    energy_source,
    gauge_source,
    level,
    stored_run,
    write_steps,
)

BEGIN = 1000 * NS


def made(tmp_path: Path, seconds: float = 60.0, **more) -> OpenRun:
    """Two cards of 300 and 200 W; the second is not read for a quarter of the time."""
    at, value = counter(BEGIN, seconds, 200.0)
    silent = (at > BEGIN + 0.5 * seconds * NS) & (at < BEGIN + 0.75 * seconds * NS)
    sources = [
        (energy_source(0), counter(BEGIN, seconds, 300.0)),
        (energy_source(1), (at[~silent], value[~silent])),
        (gauge_source(0, "power", "W", 1e-3), level(BEGIN, seconds, 310_000.0)),
        (gauge_source(0, "power_limit", "W"), level(BEGIN, seconds, 700.0, 10.0)),
        (gauge_source(0, "memory_used", "B", limit=80e9), level(BEGIN, seconds, 4e9)),
    ]
    return OpenRun(stored_run(tmp_path, sources, seconds, **more))


@pytest.mark.parametrize("seconds", [60.0, 3000.0])
def test_power_is_the_counters_slope_and_a_silence_is_a_gap(seconds: float, tmp_path: Path) -> None:
    curve = power(made(tmp_path, seconds), (0.0, seconds))
    assert curve is not None and list(curve.devices) == ["gpu0", "gpu1"]
    inside = slice(2, -2)
    assert curve.mean_w[0, inside] == pytest.approx(300.0, rel=0.01)
    middle = (curve.edges_s[:-1] + curve.edges_s[1:]) / 2
    silent = (middle > 0.53 * seconds) & (middle < 0.72 * seconds)
    assert np.isnan(curve.mean_w[1, silent]).all(), "a gap was filled"
    finite = np.isfinite(curve.mean_w[1])
    assert finite[inside].sum() > 0.6 * len(finite)
    assert curve.mean_w[1, finite][inside] == pytest.approx(200.0, rel=0.01)
    # What was polled as power widens the band of its own device only, in watts.
    assert np.nanmax(curve.high_w[0]) == pytest.approx(310.0, rel=0.01)
    assert np.isnan(curve.high_w[1]).all()
    assert curve.cap_w == [700.0, None]


def test_a_counter_that_is_read_at_one_update_in_nine_has_no_gap(tmp_path: Path) -> None:
    """Its energy between two readings is exact; only a recorded gap is left open."""
    at, value = counter(BEGIN, 60.0, 300.0)
    second = (at - BEGIN) / NS
    sparse = (second > 20.0) & (second < 40.0) & (np.arange(len(at)) % 9 != 0)
    sources = [(energy_source(0), (at[~sparse], value[~sparse]))]
    run = OpenRun(stored_run(tmp_path, sources, 60.0))
    watts = power(run, (0.0, 60.0))
    assert watts is not None
    assert np.isfinite(watts.mean_w[0, 2:-2]).all()
    assert watts.mean_w[0, 2:-2] == pytest.approx(300.0, rel=0.01)


def test_a_recorded_gap_is_left_open(tmp_path: Path) -> None:
    at, value = counter(BEGIN, 60.0, 300.0)
    second = (at - BEGIN) / NS
    dead = (second > 20.0) & (second < 22.0)
    run = stored_run(tmp_path, [(energy_source(0), (at[~dead], value[~dead]))], 60.0)
    gap = Gap("recorder", BEGIN + 20 * NS, BEGIN + 22 * NS, "the recorder was restarted")
    (layout.node_dir(run) / "gaps.jsonl").write_bytes(gap_line(gap))
    watts = power(OpenRun(run), (0.0, 60.0))
    assert watts is not None
    middle = (watts.edges_s[:-1] + watts.edges_s[1:]) / 2
    open_ = np.isnan(watts.mean_w[0, 2:-2])
    assert open_.any() and np.all(np.abs(middle[2:-2][open_] - 21.0) < 1.0)


def test_devices_are_added_up_only_where_each_of_them_was_read() -> None:
    nan = np.nan
    watts = np.array([[nan, 1.0, 1.0, 1.0, 1.0], [nan, nan, 2.0, nan, 2.0]])
    np.testing.assert_equal(power_together(watts), [nan, 1.0, 3.0, nan, 3.0])


def test_bins_hold_the_energy_and_a_zoom_is_finer(tmp_path: Path) -> None:
    run = made(tmp_path)
    whole = power(run, (0.0, 60.0))
    part = power(run, (10.0, 14.0))
    assert whole is not None and part is not None
    joules = np.nansum(whole.mean_w[0] * np.diff(whole.edges_s))
    assert joules == pytest.approx(300.0 * 60.0, rel=0.02)
    assert np.diff(part.edges_s)[0] <= np.diff(whole.edges_s)[0]
    assert part.edges_s[0] == 10.0 and part.edges_s[-1] == 14.0
    assert len(whole.edges_s) <= BINS + 1
    curve = power(run, (0.0, 60.0), ["gpu1"])
    assert curve is not None and list(curve.devices) == ["gpu1"]
    assert power(run, (0.0, 60.0), ["gpu9"]) is None


def test_what_a_model_says_is_marked(tmp_path: Path) -> None:
    modelled = gauge_source(0, "power", "W")
    import dataclasses

    modelled = dataclasses.replace(
        modelled,
        id="model:cpu",
        device="cpu",
        uuid="",
        provenance=Provenance.MODELLED,
        method="model: x",
    )
    run = OpenRun(stored_run(tmp_path, [(modelled, level(BEGIN, 30.0, 12.0, 1.0))], 30.0))
    curve = power(run, (0.0, 30.0))
    assert curve is not None and list(curve.provenance) == ["modelled"]
    assert np.nanmean(curve.mean_w) == pytest.approx(12.0, rel=0.01)


def test_a_level_is_thinned_and_keeps_its_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    at = BEGIN + (np.arange(20_000) * 0.025 * NS).astype(np.int64)
    value = np.cumsum(rng.normal(size=len(at))) + 100.0
    value[12_345] = 900.0
    source = gauge_source(0, "memory_used", "B", limit=1000.0)
    run = OpenRun(stored_run(tmp_path, [(source, (at, value))], 500.0))
    (curve,) = levels(run, (0.0, 500.0), ["memory_used"])
    assert len(curve.value) <= POINTS + 8 and curve.limit == 1000.0
    assert np.nanmax(curve.value) == 900.0, "the peak was thinned away"


def test_steps_are_cut_where_they_close(tmp_path: Path) -> None:
    run = made(tmp_path, steps=0)
    write_steps(run.path, BEGIN, 400)
    frames = anatomy(run, 20.0, 0.1)
    assert frames is not None
    assert np.diff(frames.steps_s) == pytest.approx(0.1, abs=1e-6)
    assert frames.steps_s[0] == pytest.approx(20.0, abs=0.11)
    (lane,) = frames.lanes
    assert lane.begin_s[0] == pytest.approx(frames.steps_s[0])
    assert lane.end_s[-1] == pytest.approx(frames.steps_s[-1])
    assert {"data", "forward", "backward", "optimizer"} == set(lane.phase)
    took = {
        p: float(np.sum((lane.end_s - lane.begin_s)[[n == p for n in lane.phase]]))
        for p in set(lane.phase)
    }
    assert took["backward"] == pytest.approx(0.05 * (len(frames.steps_s) - 1), rel=1e-6)
    assert anatomy(run, 0.0, 0.1) is not None and anatomy(run, 59.0, 0.1) is not None


def test_energy_per_step_and_where_it_changed(tmp_path: Path) -> None:
    source = energy_source(0)
    at, value = counter(BEGIN, 120.0, 300.0)
    run = OpenRun(stored_run(tmp_path, [(source, (at, value))], 120.0))
    write_steps(run.path, BEGIN, 800, slower_from=400)
    slopes = drift(run, run.step_times())
    assert slopes is not None and slopes.unit == "J"
    steps = slopes.steps
    assert slopes.value[steps < 380] == pytest.approx(30.0, rel=0.03)  # 300 W × 0.1 s
    assert slopes.value[steps > 420] == pytest.approx(60.0, rel=0.03)
    assert np.all(slopes.low < slopes.high)
    (change,) = slopes.changes
    assert steps[change] == pytest.approx(400, abs=slopes.block)


def test_a_level_that_only_trembles_has_no_change() -> None:
    rng = np.random.default_rng(3)
    false = sum(bool(changes(10 + rng.normal(size=200))) for _ in range(100))
    assert false <= 5
    spiky = 10 + rng.normal(size=200) * 0.1
    spiky[::40] += 5.0  # a snapshot is no new level
    assert changes(spiky) == []
    stepped = np.concatenate([np.full(100, 10.0), np.full(100, 12.0)]) + rng.normal(size=200) * 0.3
    assert changes(stepped) == [pytest.approx(100, abs=2)]
    assert changes(np.array([1.0, 2.0])) == [] and changes(np.full(50, np.nan)) == []


def test_the_library_knows_only_its_own_runs(tmp_path: Path) -> None:
    inside, outside = tmp_path / "runs", tmp_path / "else"
    stored_run(inside, [(energy_source(0), counter(BEGIN, 5.0, 100.0))], 5.0, run_id="mine")
    stored_run(outside, [(energy_source(0), counter(BEGIN, 5.0, 100.0))], 5.0, run_id="theirs")
    library = Library(inside)
    assert library.open("mine").report().run.id == "mine"
    for path in (
        "../else/theirs",
        str(outside / "theirs"),
        "..",
        ".",
        "",
        "mine/../mine",
        "mine\0",
        "./mine",
        "mine/node-x",
    ):
        with pytest.raises(UnknownRunError):
            library.open(path)
    (inside / "mine" / "run.json").write_text("{")
    with pytest.raises(StoreError):
        library.open("mine").report_now()
    shutil.rmtree(inside / "mine")
    with pytest.raises(UnknownRunError):
        library.open("mine")


def test_trainings_of_a_group_have_pages_of_their_own(tmp_path: Path) -> None:
    run = stored_group(tmp_path, ((10.0, 20.0), (30.0, 50.0)))
    library = Library(tmp_path)
    (row,) = library.rows()
    assert [training["id"] for training in row["trainings"]] == [f"{run.name}/1", f"{run.name}/2"]
    address = urls.run(row["trainings"][1]["id"])
    assert address == f"/run/{run.name}~2"
    second = library.open(f"{run.name}~2")
    assert second.report_now().run.steps == 200
    assert {phase.phase for phase in second.report_now().phases} >= {"forward", "backward"}
    assert "group of 2 trainings" in library.open(run.name).report_now().warnings[0]
    for wrong in (f"{run.name}~3", f"{run.name}~../1", "~1", f"{run.name}~x"):
        with pytest.raises(UnknownRunError):
            library.open(wrong)
