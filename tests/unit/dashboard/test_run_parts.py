"""Parts of a run's page: what was logged over joules, power by phase, the flame graph, advice."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from dashboard.access import Access
from dashboard.app import create_app
from dashboard.chart_data import Anatomy, Lane, LoggedSeries
from dashboard.data.logged import names, series
from dashboard.data.phase_power import phase_power
from dashboard.data.power import power
from dashboard.data.run import OpenRun
from dashboard.figures import flame, logged
from dashboard.figures.phase_power import phase_power as drawn_by_phase
from dashboard.figures.power import power as drawn_power
from dashboard.figures.style import TimeScale
from dashboard.pages._run_about import cards_of, origin
from dashboard.pages._run_summary import strip
from dashboard.run_charts import draw
from dashboard.urls import Selection
from probe.compare.advise import of_report
from probe.model import Provenance, RunStatus
from probe.report.answer import answer
from probe.ring.layout import Record
from probe.store import layout
from probe.store.files import write_json
from probe.store.live import LiveDevice, LivePage, LiveTime, write_live
from probe.store.segments import EDGES, SegmentWriter, seal_segment
from tests.fakes.reports import phase_row, report_of_rows
from tests.fakes.stored_run import NS, counter, energy_source, gauge_source, level, stored_run
from tests.unit.dashboard.test_figures import checked, watts

BEGIN = 1000 * NS
STEPS, SECONDS = 100, 10.0


def write_logged(run: Path, *, sealed: bool) -> None:
    """A loss that halves in the run, four samples a step; one loss is no number."""
    folder = layout.rank_dir(run, 0)
    write_json(folder / "names-main0.json", {"900": "loss", "901": "samples"})
    at = BEGIN + (np.arange(1, STEPS + 1) * 0.1 * NS).astype(np.int64) - 1000
    loss = np.linspace(2.0, 1.0, STEPS)
    loss[3] = np.nan
    writer = SegmentWriter(folder, "edges-main0-2", EDGES)
    for code, values in ((900, loss), (901, np.full(STEPS, 4.0))):
        writer.write(
            {
                "time_ns": at,
                "payload": values.view(np.int64),
                "kind": np.full(STEPS, int(Record.VALUE), np.uint8),
                "code": np.full(STEPS, code, np.uint16),
                "sequence": np.arange(10_000 + STEPS * (code - 900), dtype=np.uint32)[-STEPS:],
            }
        )
    if sealed:
        for closed in writer.close():
            seal_segment(closed)


@pytest.fixture(params=[True, False], ids=["sealed", "hot"])
def run(tmp_path: Path, request: pytest.FixtureRequest) -> OpenRun:
    """200 W, steps of 100 ms, and a model's 20 W beside the meter."""
    sources = [
        (energy_source(0), counter(BEGIN, SECONDS, 200.0)),
        (
            replace(gauge_source(1, "power", "W"), provenance=Provenance.MODELLED),
            level(BEGIN, SECONDS, 20.0),
        ),
    ]
    made = stored_run(tmp_path, sources, SECONDS, begin_ns=BEGIN, steps=STEPS)
    write_logged(made, sealed=request.param)
    return OpenRun(made)


def test_what_was_logged_stands_over_steps_samples_time_and_joules(run: OpenRun) -> None:
    assert names(run) == ["loss", "samples"]
    ends = {}
    for over in ("steps", "samples", "time", "energy"):
        points = series(run, "loss", over, None)
        assert points is not None and points.over == over
        assert (points.count, points.not_finite, len(points.x)) == (STEPS, 1, STEPS - 1)
        ends[over] = float(points.x[-1])
        assert points.value[-1] == 1.0 and np.all(np.diff(points.x) >= 0)
    assert ends["samples"] == 4 * STEPS and ends["time"] == pytest.approx(SECONDS, rel=0.01)
    assert ends["energy"] == pytest.approx(200.0 * SECONDS, rel=0.02)
    assert ends["steps"] in (STEPS - 1, STEPS)
    part = series(run, "loss", "time", (2.0, 4.0))
    assert part is not None and part.x[0] >= 2.0 and part.x[-1] <= 4.0
    assert series(run, "no such", "nowhere", None) is not None  # what is usual, in their place


def test_the_chart_of_what_was_logged_follows_the_address(run: OpenRun) -> None:
    chart = checked(draw(run, "logged", Selection.of({"v": "samples", "x": "energy"})))
    assert chart.figure is not None
    assert chart.figure["layout"]["meta"] == {"over": "energy"}
    assert chart.columns[1].key == "value" and chart.columns[1].label == "samples"
    assert "1 of 100 values are not finite" in draw(run, "logged", Selection()).caption


def test_joules_of_a_model_are_called_so() -> None:
    ramp = np.linspace(0.0, 5000.0, 10)
    of_model = LoggedSeries("loss", "energy", ("energy",), ramp, ramp, ramp, 1, 10, 0, "modelled")
    chart = checked(logged.logged(of_model))
    assert chart.figure is not None and "by a model" in str(chart.figure["layout"]["xaxis"])
    assert "of a model" in chart.caption
    measured = checked(logged.logged(replace(of_model, provenance="measured")))
    assert "model" not in measured.caption


def test_power_by_phase_adds_up_to_the_meter(run: OpenRun) -> None:
    metered = power(run, (0.0, SECONDS))
    split = phase_power(run, metered)
    assert split is not None and metered is not None and split.places is None
    place = list(metered.devices).index("gpu0")
    finite = np.isfinite(metered.mean_w[place])
    assert split.watts.sum(axis=0)[finite] == pytest.approx(metered.mean_w[place][finite])
    joules = dict(zip(split.phases, np.nansum(split.watts, axis=1), strict=True))
    total = sum(joules.values())
    # Without joules per phase all draw the same: a step is half backward, 3 in 10 forward.
    assert joules["backward"] / total == pytest.approx(0.5, abs=0.05)
    assert joules["forward"] / total == pytest.approx(0.3, abs=0.05)
    chart = checked(drawn_by_phase(split, TimeScale.of(SECONDS), None))
    assert "backward has 5" in chart.caption and chart.figure is not None
    assert {trace["stackgroup"] for trace in chart.figure["data"]} == {"phases"}


def test_a_model_is_never_beside_a_meter() -> None:
    both = watts(2)
    mixed = replace(both, provenance=["measured", "modelled"], cap_w=[None, None])
    chart = checked(drawn_power(mixed, TimeScale.of(60.0), None))
    assert chart.figure is not None
    axes = {t["name"]: t.get("yaxis", "y") for t in chart.figure["data"] if t.get("name")}
    assert axes == {"gpu0": "y", "gpu1 (model)": "y2"}
    domains = [chart.figure["layout"][name]["domain"] for name in ("yaxis", "yaxis2")]
    assert domains[1][1] < domains[0][0]


def test_a_flame_graph_has_a_bar_for_each_call_of_a_module() -> None:
    at = np.array([0.0, 0.01, 0.03, 0.04, 0.06, 0.10])
    phases = ["forward", "forward/attention", "forward/mlp", "forward/attention", "backward"]
    lane = Lane("rank 0, host", at[:-1], at[1:], phases)
    steps = Anatomy(7, np.array([0.0, 0.10, 0.20]), [lane], None)
    assert flame.has_modules(steps) and not flame.has_modules(None)
    frames = flame.frames_of(lane, 0.0, 0.10)
    shown = [(f.level, f.name, round(f.begin_ms), round(f.end_ms)) for f in frames]
    assert shown == [
        (1, "forward", 0, 60),
        (2, "forward/attention", 10, 30),
        (2, "forward/mlp", 30, 40),
        (2, "forward/attention", 40, 60),
        (1, "backward", 60, 100),
    ]
    chart = checked(flame.flame(steps))
    assert "forward/attention takes 40" in chart.caption and chart.rows[0][1] == "step 7"


def test_advice_is_cards_with_a_bound() -> None:
    report = report_of_rows(
        phase_row("data", 300.0, time_s=1.0, interval=(250.0, 350.0)),
        phase_row("forward", 700.0, time_s=2.0, interval=(650.0, 750.0)),
        energy_j=1000.0,
    )
    text = json.dumps(cards_of(of_report(report)), default=lambda part: part.to_plotly_json())
    assert "Data wait" in text and "at most 350 J and 1.00 s" in text and "35.0 %" in text
    nothing = of_report(report_of_rows(phase_row("forward", 700.0), energy_j=1000.0))
    assert "Nothing" in str(cards_of(nothing))


def test_what_a_run_was_started_with_is_shown_as_text(tmp_path: Path) -> None:
    made = stored_run(
        tmp_path,
        [(energy_source(0), counter(BEGIN, 5.0, 200.0))],
        5.0,
        command=["train.py", "--name", "a b"],
        config={"lr": 0.1},
        code={"commit": "abc", "branch": "main", "changed_files": 2, "diff_hash": ""},
    )
    text = str(origin(OpenRun(made).origin()))
    assert "train.py --name 'a b'" in text and '"lr": 0.1' in text
    assert "commit abc, branch main, changed files 2" in text


def test_a_chart_that_fails_says_so_and_is_asked_for_again(tmp_path: Path) -> None:
    made = stored_run(tmp_path, [(energy_source(0), counter(BEGIN, 5.0, 200.0))], 5.0)
    client = create_app(tmp_path, Access(), "/").test_client()
    from dashboard.pages import _run_charts

    with client.application.test_request_context("/"):
        answered = _run_charts._answer("phases", "gone", {}, complete=True)
        assert "tried again every 5 s" in str(answered[1]) and "failed" in str(answered[1])
        assert _run_charts._answer("phases", made.name, {}, complete=True)[0]["data"] is not None


def test_a_live_run_has_its_cost_and_its_co2e_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic_ns() - 20 * NS
    made = stored_run(
        tmp_path,
        [(energy_source(0), counter(began, 10.0, 200.0))],
        10.0,
        begin_ns=began,
        status=RunStatus.RUNNING,
        end_ns=0,
    )
    device = LiveDevice("gpu0", "s", "measured", 7.2e6, 200.0, 1)
    write_live(made, LivePage(time.monotonic_ns(), time.time(), devices=(device,)))
    monkeypatch.setenv("PROBE_PRICE", "0.25 EUR")
    monkeypatch.setenv("PROBE_INTENSITY", "400")
    report = OpenRun(made).report_now()
    assert not report.final and report.cost is not None and report.cost.currency == "EUR"
    assert report.total.cost == pytest.approx(0.5) and report.total.co2e_g == pytest.approx(800.0)
    assert "0.500 EUR" in str(strip(report)) and "800 g" in str(strip(report))
    # Of a price that changes, the mean over the run so far: half of the time each.
    half = datetime.fromtimestamp(time.time() - 10.0, UTC).isoformat()
    file = tmp_path / "price.csv"
    first, last = "2020-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"
    file.write_text(f"time,price EUR\n{first},0.10\n{half},0.30\n{last},9\n")
    monkeypatch.setenv("PROBE_PRICE", str(file))
    report = OpenRun(made).report_now()
    assert report.cost is not None and report.cost.per_kwh == pytest.approx(0.2, abs=0.03)
    # A page asks twice a second: the file is read when it has changed, and not else.
    begun = file.stat()
    file.write_text(f"time,price EUR\n{first},0.50\n{half},0.50\n{last},9\n")
    os.utime(file, ns=(begun.st_atime_ns, begun.st_mtime_ns))
    assert OpenRun(made).report_now().cost.per_kwh == pytest.approx(0.2, abs=0.03)
    os.utime(file, ns=(begun.st_atime_ns, begun.st_mtime_ns + NS))
    assert OpenRun(made).report_now().cost.per_kwh == pytest.approx(0.5)
    monkeypatch.delenv("PROBE_PRICE")
    assert OpenRun(made).report_now().total.cost is None


@pytest.mark.parametrize(
    ("seconds", "ranks", "headline"),
    [
        (20.0, 1, "energy by phase comes after about a minute of recording; forward takes 75.0 %"),
        (200.0, 1, "no phase's energy is known yet; forward takes 75.0 %"),
        (20.0, 2, "no phase's energy is known yet; forward takes 75.0 %"),
    ],
)
def test_a_live_run_says_why_no_phase_has_energy_yet(
    seconds: float, ranks: int, headline: str, tmp_path: Path
) -> None:
    now_ns, now_s = time.monotonic_ns(), time.time()
    samples = [(energy_source(0), counter(now_ns - 20 * NS, 10.0, 200.0))]
    made = stored_run(tmp_path, samples, 10.0, status=RunStatus.RUNNING, ranks=ranks)
    meta = json.loads((made / layout.RUN_FILE).read_text())
    anchor = {"monotonic_ns": now_ns, "wall_ns": time.time_ns()}
    begun = {"begin_ns": now_ns - int(seconds * NS), "end_ns": None, "anchor": anchor}
    write_json(made / layout.RUN_FILE, meta | begun)
    device = LiveDevice("gpu0", "s", "measured", 4e3, 200.0, 1)
    times = (LiveTime("forward", 0, 9.0, 90), LiveTime("backward", 0, 3.0, 90))
    write_live(made, LivePage(now_ns, now_s, devices=(device,), times=times))
    assert answer(OpenRun(made).report_now()).headline.startswith(headline)
