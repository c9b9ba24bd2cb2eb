"""A run whose report takes longer than the time between two ticks of its page."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dash", reason="dash is not installed")

from dashboard.access import Access
from dashboard.data.run import OpenRun
from dashboard.pages import _run_charts
from dashboard.server import Serving
from probe.report.model import Report
from tests.fakes import processes
from tests.fakes.stored_run import counter, energy_source, stored_run

pytestmark = pytest.mark.xdist_group("dashboard")  # one browser


def test_first_lines_that_take_longer_than_a_tick_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Any
) -> None:
    report_now = OpenRun.report_now

    def slow_report(run: OpenRun) -> Report:
        time.sleep(2.0)
        return report_now(run)

    monkeypatch.setattr(OpenRun, "report_now", slow_report)
    monkeypatch.setattr(_run_charts, "SLOW_TICK_MS", 300)
    begin_ns = 10**12
    samples = [(energy_source(0), counter(begin_ns, 20.0, 250.0))]
    run = stored_run(tmp_path / "runs", samples, 20.0, begin_ns=begin_ns, steps=100)
    serving = Serving(tmp_path / "runs", Access(port=0))
    with contextlib.closing(serving):
        page = browser.new_page()
        with contextlib.closing(page):
            page.goto(f"{serving.address}run/{run.name}")
            page.wait_for_selector(".tile", timeout=1000 * processes.HUNG_S)
