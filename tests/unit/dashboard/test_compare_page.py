"""The page of a comparison: before and after, what would make it sure, run against run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dashboard.data.logged import of_all
from dashboard.data.run import OpenRun
from dashboard.figures.before_after import before_after
from dashboard.figures.overlay import overlay
from dashboard.pages._comparison import _blocks, charts
from probe.compare.sure import MOST_RUNS, more_runs, to_be_sure
from probe.model import Provenance
from tests.contract.test_comparisons import HOSTILE, KINDS, comparison_of
from tests.fakes.stored_run import counter, energy_source, gauge_source, level, stored_run
from tests.unit.dashboard.test_figures import checked
from tests.unit.dashboard.test_run_parts import BEGIN, SECONDS, STEPS, write_logged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["base", HOSTILE])
def test_every_kind_of_comparison_is_drawn(name: str, kind: str) -> None:
    report = comparison_of(name, kind)
    for _, chart in charts(report).values():
        checked(chart)
    text = json.dumps(
        _blocks(report, lambda _: ("", "")), default=lambda part: part.to_plotly_json()
    )
    assert "quality: eval_loss" in text and "nan" not in text


def test_before_and_after_of_each_phase_have_the_interval_of_their_difference() -> None:
    report = comparison_of()
    comparison = report.comparisons[0]
    chart = checked(before_after(report, comparison))
    assert chart.figure is not None
    before, after = chart.figure["data"]
    for row, cells in zip(comparison.phases, chart.rows, strict=False):
        assert cells[1] == row.base.energy_j and cells[2] == row.other.energy_j
        assert row.gain_j_interval is not None
        # What is after lies as far from what was before as the saving, at both ends.
        assert cells[4] == pytest.approx(row.base.energy_j - row.gain_j_interval[0])
    assert len(before["x"]) == len(after["x"]) == len(after["error_x"]["array"])
    alone = checked(
        before_after(comparison_of(kind="single"), comparison_of(kind="single").comparisons[0])
    )
    assert "no interval" in alone.caption


def test_more_runs_are_as_many_as_a_simulation_needs() -> None:
    """Runs that scatter by 1 around means 1.2 apart: with as many, half of the tries decide."""
    rng = np.random.default_rng(3)
    half = float(stats.t.ppf(0.975, 4)) * np.sqrt(2 / 3)  # of three a side that scatter by 1
    more = more_runs(1.2, (1.2 - half, 1.2 + half), 3)
    assert more is not None and more > 0

    def decided(runs: int) -> float:
        a, b = rng.normal(0.0, 1.0, (2, 4000, runs))
        return float(np.mean(stats.ttest_ind(a, b + 1.2, axis=1).pvalue < 0.05))

    assert decided(3 + more) > 0.45 > decided(3)
    assert more_runs(5.0, (4.0, 6.0), 3) == 0
    assert more_runs(0.01, (-1.0, 1.02), 3) is None


def test_what_would_make_it_sure_is_a_sentence() -> None:
    single = comparison_of(kind="single").comparisons[0]
    assert to_be_sure(single).startswith("One more run a side would give an interval")
    assert "did the same work" in to_be_sure(comparison_of(kind="unlike").comparisons[0])
    sure = comparison_of().comparisons[0]
    gain = replace(sure.energy_j, gain=1.0, interval=(-0.5, 2.5))
    open_ = replace(sure, energy_j=gain, verdict=type(sure.verdict).NO_EVIDENCE)
    assert "more runs a side would likely decide about the total" in to_be_sure(open_)
    hopeless = replace(open_, energy_j=replace(gain, gain=0.001))
    assert f"{MOST_RUNS} a side would hardly" in to_be_sure(hopeless)


def logged_run(directory: Path, name: str, watts: float, *, modelled: bool = False) -> OpenRun:
    model = replace(gauge_source(0, "power", "W"), provenance=Provenance.MODELLED)
    source = (
        (model, level(BEGIN, SECONDS, watts))
        if modelled
        else (energy_source(0), counter(BEGIN, SECONDS, watts))
    )
    run = stored_run(
        directory, [source], SECONDS, run_id=name, name=name, begin_ns=BEGIN, steps=STEPS
    )
    write_logged(run, sealed=True)
    return OpenRun(run)


def test_run_against_run_is_over_joules_and_no_model_stands_beside_a_meter(tmp_path: Path) -> None:
    runs = [
        ("plain", logged_run(tmp_path, "of-200-w", 200.0)),
        ("faster", logged_run(tmp_path, "of-100-w", 100.0)),
        ("laptop", logged_run(tmp_path, "of-a-model", 20.0, modelled=True)),
    ]
    common, drawn = of_all(runs, "loss", "energy")
    assert common == ["loss", "samples"] and [side for side, _, _ in drawn] == ["plain", "faster"]
    chart = checked(overlay(drawn, len(runs)))
    assert "plain ends at 1.00 after 1.98 kJ" in chart.caption and "2 of 3 runs" in chart.caption
    assert chart.figure is not None
    ends = [trace["x"][-1] for trace in chart.figure["data"]]
    assert ends[0] == pytest.approx(2 * ends[1], rel=0.02)  # twice the power, the same steps
    _, over_steps = of_all(runs, "", "steps")
    assert len(over_steps) == 3
    assert checked(overlay([], 2)).figure is None and of_all([], "", "") == ([], [])
