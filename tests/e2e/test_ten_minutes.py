"""What a user wants of a week's runs: the dearest, why, against a cheaper one, as one file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from probe.store.files import read_run_file, write_json
from probe.store.layout import RUN_FILE
from tests.fakes.power_traces import Part
from tests.fakes.virtual_run import VirtualRun

from .conftest import Shown, end, serve
from .test_dashboard_browser import opened, settled, until

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("dashboard")]  # one browser

SECONDS = 120.0
# Name, watts of its backward, days ago: the dearest of all is older than a week.
RUNS = (
    *(("wide", 640.0 + 20 * run, 2.0) for run in range(3)),
    *(("narrow", 280.0 + 20 * run, 3.0) for run in range(3)),
    ("huge", 900.0, 30.0),
)


def recorded(directory: Path, number: int, name: str, watts: float, begun: datetime) -> str:
    """The id of a run that the real recorder made, in virtual time."""
    parts = (
        Part("data", 14.0, 0.5, 100.0),
        Part("forward", 52.0, 0.2, 250.0),
        Part("backward", 83.0, 0.2, watts),
        Part("optimizer", 18.0, 0.3, 150.0),
    )
    made = VirtualRun(directory / f"of-{number}", SECONDS, parts=parts, seed=number)
    made.record()
    run = directory / f"{begun:%Y%m%d-%H%M%S}-{name}-{number:06x}"
    made.path.rename(run)
    made.path.parent.rmdir()
    more = {
        "id": run.name,
        "name": name,
        "started": begun.isoformat(),
        "host": "secret-host",
        "command": ["train.py", "--project=secret-project"],
    }
    write_json(run / RUN_FILE, {**read_run_file(run), **more}, checked=True)
    return run.name


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Shown]:
    directory, now = tmp_path / "runs", datetime.now(UTC)
    directory.mkdir()
    ids = {
        f"{name}-{number}": recorded(
            directory, number, name, watts, now - timedelta(days=days, minutes=number)
        )
        for number, (name, watts, days) in enumerate(RUNS)
    }
    server, url = serve(directory)
    yield Shown(url, directory, ids)
    end(server)


def test_the_dearest_run_of_last_week_its_phase_a_cheaper_one_and_one_file(
    week: Shown, browser: Any, tmp_path: Path
) -> None:
    since = (datetime.now(UTC) - timedelta(days=7)).strftime("%Y-%m-%d")
    row = "table.runs tbody tr"
    with opened(browser, week, "") as page:
        settled(page, "runs")
        page.locator("#runs-search").fill(f"from:{since}")
        until(page, f"document.querySelectorAll('{row}').length === 6")
        # Energy of each is read from its samples while the list is open.
        until(page, f"[...document.querySelectorAll('{row}')].every((r) => /kJ/.test(r.innerText))")
        page.get_by_role("link", name="energy", exact=True).click()
        page.wait_for_selector("th[aria-sort=descending]")
        dearest = page.locator(row).first
        assert dearest.locator(".name").inner_text() == "wide"
        assert dearest.locator(".tick").get_attribute("data-run") == week.runs["wide-2"]
        dearest.get_by_role("link", name="wide").click()
        page.wait_for_selector(".tile")
        headline = page.locator("h1").inner_text()
        assert re.match(r"backward takes [\d.]+\s±\s[\d.]+\s% of the energy", headline), headline
        page.go_back()
        page.wait_for_selector(row)
        for name in ("wide-2", "narrow-3"):
            page.locator(f".tick[data-run='{week.runs[name]}']").click()
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector(".verdict")
        # One run a side is no verdict: all of these names are.
        for field, name in (("#base", "wide"), ("#other-0", "narrow")):
            page.locator(field).fill(name)
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector(".verdict.gain")
        assert "backward" in page.locator(".card.of-before-0").inner_text()
        with page.expect_download() as download:
            page.get_by_role("link", name="Snapshot").click()
        file = tmp_path / "answer.html"
        download.value.save_as(file)
    asked: list[str] = []
    colleague = browser.new_page()
    colleague.on("request", lambda request: asked.append(request.url))
    colleague.on("console", lambda message: asked.append(message.text))
    colleague.goto(file.as_uri())
    until(colleague, "document.querySelectorAll('.graph .main-svg').length >= 3")
    assert "wide" in colleague.locator("h1").inner_text()
    assert colleague.locator(".verdict").inner_text()
    colleague.close()
    assert [
        address for address in asked if not address.startswith(("file:", "data:", "blob:"))
    ] == []
    text = file.read_text()
    assert "secret" not in text and str(week.directory) not in text and len(text) < 5_000_000
