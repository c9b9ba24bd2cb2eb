"""The whole node beside its parts: stated, never added, never in a phase."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from probe.analysis.carbon_and_price import Tariffs
from probe.model import DeviceKind, Kind, Source
from probe.report.build.report import build
from probe.report.model import Report
from probe.sensors.node._node_power import node_power
from tests.fakes.stored_run import NS, Samples, counter, energy_source, level, stored_run

BEGIN = 1000 * NS


def node_counter(watts: float, seconds: float) -> tuple[Source, Samples]:
    """As pm_counters shows it: whole joules, ten times a second."""
    source = replace(
        node_power("pm_counters", "pm_counters"),
        id="pm_counters:energy",
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        resolution_s=None,
    )
    at, value = counter(BEGIN, seconds, watts)
    return source, (at, np.floor(value / 1e3))


def report_of(folder: Path, node: tuple[Source, Samples], seconds: float = 20.0) -> Report:
    cards = [(energy_source(gpu), counter(BEGIN, seconds, 250.0)) for gpu in range(2)]
    run = stored_run(folder, [*cards, node], seconds, steps=int(10 * seconds) - 2)
    return build(run, tariffs=Tariffs())


def test_a_node_stands_beside_its_parts_and_in_no_phase(tmp_path: Path) -> None:
    report = report_of(tmp_path, node_counter(800.0, 20.0))
    (row,) = report.nodes
    assert row.energy_j == pytest.approx(16_000, rel=0.01)
    assert row.parts == ("gpu0", "gpu1") and row.parts_j == report.total.energy_j
    assert row.rest_j == pytest.approx(6_000, rel=0.02)
    assert row.rest_j_interval is not None
    assert row.rest_j_interval[0] < 6_000 < row.rest_j_interval[1]
    assert report.total.energy_j == pytest.approx(10_000, rel=0.01)
    assert not [phase for phase in report.phases if phase.device == "node"]
    text = str(report)
    assert "node: 16.0" in text and "gpu0, gpu1: 10" in text and "no meter here tells apart" in text
    assert "node" in report.to_json()


def test_parts_above_their_node_are_a_contradiction(tmp_path: Path) -> None:
    report = report_of(tmp_path, node_counter(400.0, 20.0))
    (line,) = [line for line in report.warnings if "whole node" in line]
    assert "gpu0, gpu1 add up to 100" in line and "counted twice" in line
    # As much as the node to within what its ends leave open: no word of it.
    report = report_of(tmp_path / "equal", node_counter(500.0, 20.0))
    assert not [line for line in report.warnings if "whole node" in line]


@pytest.mark.parametrize(("seconds", "rows"), [(90.0, 0), (300.0, 1)])
def test_a_mean_of_a_minute_speaks_for_long_runs_only(
    tmp_path: Path, seconds: float, rows: int
) -> None:
    node = node_power("redfish", "redfish"), level(BEGIN, seconds, 900.0, every_s=10.0)
    report = report_of(tmp_path, node, seconds)
    assert len(report.nodes) == rows
    for row in report.nodes:
        assert row.energy_j == pytest.approx(270_000, rel=0.01)
        # A minute at either end may be another's.
        assert row.energy_j_interval[1] - row.energy_j > 50_000


def test_a_platform_that_is_no_node_and_a_run_without_parts(tmp_path: Path) -> None:
    source, samples = node_counter(800.0, 20.0)
    psys = replace(source, id="rapl:psys", device="psys", device_kind=DeviceKind.PLATFORM)
    assert report_of(tmp_path, (psys, samples)).nodes == ()
    run = stored_run(tmp_path / "alone", [(source, samples)], 20.0, steps=10)
    report = build(run, tariffs=Tariffs())
    (row,) = report.nodes
    assert row.parts_j is None and row.rest_j is None
    assert "none of its parts has a meter" in str(report)
