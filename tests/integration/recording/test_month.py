"""A month of a slow run in seconds: few files, little space, a quick report of what is left."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.long_runs.thirty_days import month
from probe.report.build.report import build
from probe.store.history import History
from probe.store.reader import RunReader
from tests.fakes.stored_run import NS

# One fixture of nine days.
pytestmark = [pytest.mark.full, pytest.mark.xdist_group("month")]

DAYS, STEPS_PER_S = 9, 0.5


@pytest.fixture(scope="module")
def nine_days(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float, int, int]:
    store, true_j = month(
        tmp_path_factory.mktemp("month"), hours=DAYS * 24, ranks=1, steps_per_s=STEPS_PER_S
    )
    files, size = store.size()
    return store.recording.run, true_j, files, size


def test_few_files_and_little_space(nine_days: tuple[Path, float, int, int]) -> None:
    run, _, files, size = nine_days
    assert files < 700
    assert size < 200e6
    assert not list(run.rglob("*.arrows"))


def test_the_report_is_quick_right_and_says_what_was_thinned(
    nine_days: tuple[Path, float, int, int],
) -> None:
    run, true_j, *_ = nine_days
    began = time.process_time()
    report = build(run).to_dict()
    assert time.process_time() - began < 5.0
    assert report["total"]["energy_j"] == pytest.approx(true_j, rel=1e-3)
    assert report["run"]["steps"] == DAYS * 86_400 * STEPS_PER_S
    (line,) = [line for line in report["warnings"] if "thinned" in line]
    assert "first 8.0 days" in line


def test_ledger_steps_and_samples_go_through_all_days(
    nine_days: tuple[Path, float, int, int],
) -> None:
    run, *_ = nine_days
    reader = RunReader(run)
    seconds = DAYS * 86_400
    ledger = reader.ledger(0)
    assert ledger["time_ns"].to_numpy().sum() / NS == pytest.approx(seconds, rel=1e-3)
    assert ledger.num_rows < 4 * 1.2 * (7.1 * 86_400 * STEPS_PER_S + 1.9 * 8640)
    steps = reader.steps_ns(0)
    assert len(steps) == pytest.approx(seconds * STEPS_PER_S, rel=1e-3)
    assert np.all(np.diff(steps) > 0)
    assert not reader.damaged
    history = History(reader.nodes()[0])
    history.refresh()
    begin_ns = reader.begin_ns
    rolled = history.rolled([0], begin_ns, begin_ns + seconds * NS, "60s")[0]
    assert len(rolled.begin_ns) == seconds // 60
    assert set(np.diff(rolled.begin_ns)) == {60 * NS}
    end_ns = begin_ns + seconds * NS
    assert history.rolled([0], end_ns - 3600 * NS, end_ns, "1s")[0].width_ns == NS
    old = history.rolled([0], begin_ns, begin_ns + 3600 * NS, "1s")[0]  # kept for a week
    assert old.width_ns == 10 * NS and len(old.begin_ns) == 361
