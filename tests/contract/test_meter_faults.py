"""One meter's trouble stays with that meter: the report, every export and the page still come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporters import StoredRun, exporter_of, exporters
from probe.analysis import phase_rows, rates
from probe.attribution.accumulator import Accumulator
from probe.attribution.meter.energy_knots import CounterKnots
from probe.report.build.report import build
from probe.report.formats import formats, render
from tests.fixtures.archives import STORED_RUNS, unpack

NEED_A_SERVER = {"pushgateway", "mlflow", "tensorboard", "trackio", "wandb"}
OPTIONS = {"sci": {"embodied_g": "120", "per": "100"}}


class Planted(ArithmeticError):
    """No code of ours raises or expects it."""


def planted_failure(*_: Any, **__: Any) -> Any:
    raise Planted("planted")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED_RUNS, folder)
    return folder / "runs"


def of(runs: Path, name: str) -> Path:
    (run,) = runs.glob(f"*-{name}")
    return run


@pytest.fixture(
    params=[(phase_rows, "estimate"), (Accumulator, "feed_reads"), (CounterKnots, "curve"),
            (rates, "rate_rows")],
    ids=lambda param: f"{param[0].__name__.rpartition('.')[2]}.{param[1]}",
)  # fmt: skip
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[object, str]:
    owner, name = request.param
    monkeypatch.setattr(owner, name, planted_failure)
    return owner, name


@pytest.mark.parametrize("run", ["activity", "eight-gpus"])
def test_a_planted_failure_is_a_warning_and_everything_still_comes(
    run: str, planted: tuple[object, str], runs: Path, tmp_path: Path
) -> None:
    stored = StoredRun(of(runs, run))
    report = build(stored.path, recompute=True)
    lines = [line for line in report.warnings if "Planted: planted" in line]
    if planted[1] == "rate_rows" and run == "eight-gpus":
        assert not lines  # nothing was measured that it works on
    else:
        assert lines and all(line.startswith("gpu") for line in lines)
    for name in formats():
        assert render(report, name)
    for name in sorted(set(exporters()) - NEED_A_SERVER):
        output = tmp_path / name / "out"
        exporter_of(name, OPTIONS.get(name)).export(stored, output)
        assert output.stat().st_size > 0


def test_other_meters_keep_their_phases(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = of(runs, "eight-gpus")
    before = build(run)
    original = phase_rows.estimate
    calls: list[None] = []

    def first_fails(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise Planted("planted")
        return original(*args, **kwargs)

    monkeypatch.setattr(phase_rows, "estimate", first_fails)
    after = build(run)
    (line,) = [line for line in after.warnings if "Planted" in line]
    device = line.partition(" ")[0]
    assert "phases share its energy by time" in line
    rows = [row for row in before.phases if row.device != device]
    assert rows and rows == [row for row in after.phases if row.device != device]
    energy = {row.device: row.energy_j for row in after.sources}
    assert energy == {row.device: row.energy_j for row in before.sources}
    assert [row for row in after.phases if row.device == device]
