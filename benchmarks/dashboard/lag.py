"""How late (s) the dashboard shows a live run: from a sample on disk to the browser's screen.

python -m benchmarks.dashboard.speed --only lag
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.data.power import main_meters
from dashboard.data.run import OpenRun
from probe.store.layout import RUN_FILE
from probe.store.tail import Tail
from tests.e2e.conftest import end, said, start

from .browser import FIRST, new_page, server

LAG_S = 1.0  # the bar
# Every new reading that is on the screen: [seconds since the run's begin, when (ms since 1970)].
SEEN = """() => {
  window.seen = [];
  let last = 0;
  const look = () => {
    const plot = document.querySelector(`[id*='"view":"power"'] .js-plotly-plot`);
    const meta = plot && plot._fullLayout && plot.layout.meta;
    if (meta && meta.newest_s > last) {
      last = meta.newest_s;
      window.seen.push([last, performance.timeOrigin + performance.now()]);
    }
    requestAnimationFrame(look);
  };
  look();
}"""


def follow(run: Path, stop: threading.Event, stored: list[tuple[float, float]]) -> None:
    """Add what comes into the hot segment to ``stored``, looking every 2 ms until ``stop``.

    Of meters that the chart of power shows: (seconds of the newest sample, when it was on disk).
    """
    begin_ns = json.loads((run / RUN_FILE).read_text())["begin_ns"]
    shown = pa.array([meter.index for meter in main_meters(OpenRun(run).meters())], pa.uint16())
    tails: dict[Path, Tail] = {}
    while not stop.is_set():
        for path in run.glob("node-*/hot/samples-*.arrows"):
            batches = tails.setdefault(path, Tail(path)).new()
            times = [
                pc.max(batch.column("time_ns").filter(pc.is_in(batch.column("source"), shown)))
                for batch in batches
            ]
            newest = max((time_ns.as_py() or 0 for time_ns in times), default=0)
            if newest:
                stored.append(((newest - begin_ns) / 1e9, time.time()))
        stop.wait(0.002)


def lag(browser: Any, folder: Path, seconds: float = 60.0) -> dict[str, Any]:
    """A live training on eight rig GPUs, looked at for ``seconds``."""
    training = start(folder, "live", seconds + 30, gpus=8)
    run = folder / "runs" / said(training)
    stored: list[tuple[float, float]] = []
    stop = threading.Event()
    try:
        time.sleep(5)
        threading.Thread(target=follow, args=(run, stop, stored)).start()
        with server(run.parent) as (url, _pid), new_page(browser) as page:
            page.goto(f"{url}run/{run.name}")
            page.wait_for_selector(FIRST)
            page.wait_for_timeout(3000)
            page.evaluate(SEEN)
            page.wait_for_timeout(int(1000 * seconds))
            shown = page.evaluate("() => window.seen")
    finally:
        stop.set()
        end(training)
    lags = []
    for newest_s, at_s in stored:
        on_screen = [when / 1e3 for seen_s, when in shown if seen_s >= newest_s - 1e-3]
        if on_screen and shown[0][1] / 1e3 < at_s < shown[-1][1] / 1e3 - 2:
            lags.append(on_screen[0] - at_s)
    lags.sort()
    p95 = lags[int(0.95 * len(lags))]
    print(
        f"lag: {len(lags)} batches; from disk to screen median {statistics.median(lags):.2f} s, "
        f"p95 {p95:.2f} s",
        flush=True,
    )
    return {
        "batches": len(lags),
        "lag_median_s": statistics.median(lags),
        "lag_p95_s": p95,
        "held": p95 <= LAG_S,
    }
