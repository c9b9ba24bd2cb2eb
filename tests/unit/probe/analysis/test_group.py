"""Where a group's joules go: to one training, to several at a time, to none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from probe.analysis.group import GroupAnalysis
from probe.errors import UsageError
from probe.report.build import report_of
from tests.fakes.stored_group import POWER_W, stored_group

TRAININGS = ((10.0, 20.0), (30.0, 50.0), (40.0, 60.0))


def test_alone_together_and_in_none(tmp_path: Path) -> None:
    group = GroupAnalysis(stored_group(tmp_path, TRAININGS))
    (split,) = group.splits
    assert split.alone_j == pytest.approx({1: 10 * POWER_W}, rel=1e-3)
    assert split.shared == {2, 3}
    assert split.shared_j == pytest.approx(30 * POWER_W, rel=1e-3)
    assert split.rest_j == pytest.approx(60 * POWER_W, rel=1e-3)
    assert group.shared().duration_s == pytest.approx(30.0)
    assert group.rest().duration_s == pytest.approx(60.0)


def test_one_inside_another_and_one_after_both(tmp_path: Path) -> None:
    group = GroupAnalysis(stored_group(tmp_path, ((10.0, 50.0), (20.0, 30.0), (60.0, 70.0))))
    (split,) = group.splits
    assert split.shared == {1, 2}
    assert set(split.alone_j) == {3}
    assert split.shared_j == pytest.approx(40 * POWER_W, rel=1e-3)


def test_a_report_of_each_and_of_all(tmp_path: Path) -> None:
    run = stored_group(tmp_path, TRAININGS)
    value = report_of(run).to_dict()
    group, runs = value["group"], value["runs"]
    assert [member["steps"] for member in group["members"]] == [100, 200, 200]
    assert group["steps"] == 500
    assert runs[0]["total"]["energy_j"] == pytest.approx(10 * POWER_W, rel=1e-3)
    for shared in runs[1:]:
        assert shared["total"]["energy_j"] is None
        assert shared["sources"][0]["in_total"] is False
        assert shared["sources"][0]["shared"] is True
        assert all(row["energy_j"] is None for row in shared["phases"])
        assert any("the group's" in line for line in shared["warnings"])
    parts = [runs[0]["total"]["energy_j"], group["shared"]["energy_j"], group["rest"]["energy_j"]]
    assert math.isclose(math.fsum(parts), group["total"]["energy_j"], rel_tol=1e-12)
    backward = next(row for row in runs[0]["phases"] if row["phase"] == "backward")
    assert backward["count"] == 100
    text = str(report_of(run))
    assert "3 trainings" in text
    assert "train --trial 3" not in text  # only what tells them apart
    assert "shared by 2 at the same time" in text
    assert str(report_of(run).render("csv")).count("\ntraining,") == 3
    with pytest.raises(UsageError, match="name one of them"):
        report_of(run, part_s=(0.0, 1.0))


def test_fifty_trainings(tmp_path: Path) -> None:
    run = stored_group(tmp_path, [(2.0 * k + 1, 2.0 * k + 2.5) for k in range(48)])
    value = report_of(run).to_dict()
    parts = [report["total"]["energy_j"] for report in value["runs"]]
    parts.append(value["group"]["rest"]["energy_j"])
    assert math.isclose(math.fsum(parts), value["group"]["total"]["energy_j"], rel_tol=1e-9)
    assert value["group"]["shared"]["energy_j"] is None
