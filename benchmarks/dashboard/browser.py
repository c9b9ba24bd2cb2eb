"""What the parts of speed.py share: a dashboard, a browser, and what is timed in it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.conftest import CHROMIUM, end, serve
from tests.fakes import processes

FIRST = '[id*=\'"view":"power"\'] .js-plotly-plot .main-svg'
# Resolves with the milliseconds from the end of the drag to the frame after the finer data.
ZOOM = """() => {
  const plot = document.querySelector(`[id*='"view":"power"'] .js-plotly-plot`);
  const mark = () => JSON.stringify([plot.data.length, plot.data[0].x.length, plot.data[0].x[2]]);
  const before = mark();
  window.zoomed = new Promise((done) => {
    document.addEventListener("mouseup", () => {
      const began = performance.now();
      const look = () => mark() === before ? requestAnimationFrame(look)
        : requestAnimationFrame(() => done(performance.now() - began));
      look();
    }, {once: true, capture: true});
  });
}"""


@contextlib.contextmanager
def server(directory: Path) -> Iterator[tuple[str, int]]:
    """(address, pid) of a dashboard of a directory of runs."""
    process, url = serve(directory)
    try:
        yield url, process.pid
    finally:
        end(process)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """The system's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextlib.contextmanager
def new_page(browser: Any) -> Iterator[Any]:
    """A page of a browser that has seen nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def cold(browser: Any, url: str, ready: str) -> float:
    """Seconds from asking for a page to the first element of a selector, without a cache."""
    with new_page(browser) as page:
        return opened(page, url, ready)


def opened(page: Any, url: str, ready: str) -> float:
    """The same in a page that may have the scripts from before."""
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(ready, timeout=1000 * processes.HUNG_S)
    return time.perf_counter() - began


def zooms(browser: Any, url: str, seconds: float, times: int) -> list[float]:
    """Sorted ms until the finer data are drawn, so many times from each of three spans of a run."""
    from tests.e2e.test_dashboard_browser import drag

    took = []
    end_s = 0.45 * seconds
    # Of big: rollups of a minute, of a second; samples.
    spans = ("", *(f"?t={end_s - share * seconds:.0f}-{end_s:.0f}" for share in (0.08, 0.0065)))
    with new_page(browser) as page:
        for turn in range(3 * times):
            page.goto(url + spans[turn % 3])
            page.wait_for_selector(FIRST)
            page.wait_for_timeout(2500)  # everything else is drawn
            page.evaluate(ZOOM)
            drag(page, "power", 0.2 + 0.01 * turn, 0.7)
            took.append(page.evaluate("() => window.zoomed"))
    return sorted(took)
