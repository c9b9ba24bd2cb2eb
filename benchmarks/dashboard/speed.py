"""How fast the dashboard is (s, ms), how large (MiB), and what looking costs the training (%).

    python -m benchmarks.dashboard.speed [--keep DIR] [--only big,week,list,lag,cost]

big    a finished run of ten million samples (12.75 h, 8 GPUs; by long_runs/day.py): first chart
       in a browser without a cache, zoom until the finer data are drawn, memory of the server
week   a finished run of 64 GPUs over a week: the same
list   a directory of 10,000 runs, which an earlier server listed: table in such a browser; and
       again, in a browser that has the scripts, of a server that runs
lag    a live training on eight rig GPUs: from a sample on disk to the browser's screen (lag.py)
cost   20 clients replay what one tab asks, on the core that is not the training's: steps with and
       without them by turns, the same without any beside it (A/A; cost.py)

Bars: 1.5 s, 200 ms, 400 MiB; 5 s, 1 s, 1 GiB; 1 s, 1 s; p95 1 s; 0.5 %. On a busy machine the
seconds of the processors, which are printed as well, say more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.results import commit, machine, read, save
from benchmarks.long_runs import day, week
from probe.store.layout import RUN_FILE
from tests.fakes.many_runs import store_many_runs

from .browser import FIRST, browser, cold, new_page, opened, server, zooms
from .cost import cost
from .lag import lag

LIMITS = {"big": (1.5, 200.0, 400.0), "week": (5.0, 1000.0, 1024.0)}  # s, ms, MiB
LIST_S, AGAIN_S, CATALOGUE_KEPT_S = 1.0, 1.0, 8.0
HOURS, RUNS, TIMES = 12.75, 10_000, 7
PARTS = ("big", "week", "list", "lag", "cost")


def peak_mib(pid: int) -> float:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def big(browser: Any, folder: Path) -> dict[str, Any]:
    """The run that is kept in the folder, or a new one."""
    runs = list(folder.glob(f"*/{RUN_FILE}"))
    run = runs[0].parent if runs else day.record(folder, HOURS, 8)
    return looked_at("big", browser, run, HOURS * 3600)


def looked_at(what: str, browser: Any, run: Path, seconds: float) -> dict[str, Any]:
    """First chart, zoom and memory of one run."""
    import pyarrow.parquet as pq

    from probe.store.reader import RunReader
    from probe.store.segment_reader import segment_files

    folder = run.parent
    samples = sum(
        pq.read_metadata(path).num_rows
        for node in RunReader(run).nodes()
        for path in segment_files(node, "samples")
    )
    first = []
    for _ in range(TIMES):  # a server that has not seen the run, a browser that has seen nothing
        with server(folder) as (url, pid):
            first.append(cold(browser, f"{url}run/{run.name}", FIRST))
    with server(folder) as (url, pid):
        cpu = cpu_s(pid)
        took = zooms(browser, f"{url}run/{run.name}", seconds, TIMES)
        cpu = cpu_s(pid) - cpu
        mib = peak_mib(pid)
    figures = {
        "samples": samples,
        "first_s": statistics.median(first),
        "first_worst_s": max(first),
        "zoom_ms": statistics.median(took),
        "zoom_worst_ms": took[-1],
        "views_and_zooms_server_cpu_s": cpu,
        "mib": mib,
    }
    print(
        f"{what}: {samples / 1e6:.2f} M samples; first chart {figures['first_s']:.2f} s "
        f"(worst of {TIMES} {max(first):.2f}); zoom {figures['zoom_ms']:.0f} ms (worst of "
        f"{len(took)} {took[-1]:.0f}); server {mib:.0f} MiB, "
        f"{1e3 * cpu / len(took):.0f} ms of a core for a page and its zoom",
        flush=True,
    )
    first_s, zoom_ms, most_mib = LIMITS[what]
    return figures | {
        "held": figures["first_s"] <= first_s and figures["zoom_ms"] <= zoom_ms and mib <= most_mib
    }


def listing(browser: Any, folder: Path) -> dict[str, Any]:
    """The runs of tests/fakes/many_runs.py; the first server that lists them is not counted."""
    directory, row = folder / "runs", "table.runs tbody tr:nth-child(50)"
    directory.mkdir()
    store_many_runs(directory, RUNS)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    took, cpu = [], []
    for turn in range(TIMES + 1):
        with server(directory) as (url, pid):
            began = cpu_s(pid)
            seconds = cold(browser, url, row)
            if turn:
                took.append(seconds)
                cpu.append(cpu_s(pid) - began)
            else:
                time.sleep(CATALOGUE_KEPT_S)
    with server(directory) as (url, _), new_page(browser) as page:
        again = sorted(opened(page, url, row) for _ in range(TIMES + 1))[:-1]  # one was the first
    del os.environ["XDG_CACHE_HOME"]
    figures = {
        "runs": RUNS,
        "list_s": statistics.median(took),
        "list_worst_s": max(took),
        "list_server_cpu_s": statistics.median(cpu),
        "again_s": statistics.median(again),
        "again_worst_s": again[-1],
    }
    print(
        f"list: {RUNS} runs in {figures['list_s']:.2f} s (worst of {TIMES} {max(took):.2f}), "
        f"{figures['list_server_cpu_s']:.2f} s of a core in the server; "
        f"again in {figures['again_s']:.2f} s (worst {again[-1]:.2f})",
        flush=True,
    )
    return figures | {"held": figures["list_s"] <= LIST_S and figures["again_s"] <= AGAIN_S}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", metavar="DIR", help="where the large run is kept")
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    print(json.dumps(machine()))
    parts = options.only.split(",")
    figures: dict[str, Any] = {}
    with contextlib.ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory()))
        if "cost" in parts:  # before a browser is there
            figures["cost"] = cost(folder / "cost")
        chromium = open_.enter_context(browser()) if set(parts) - {"cost"} else None
        if "big" in parts:
            figures["big"] = big(chromium, Path(options.keep or folder / "big"))
        if "week" in parts:
            figures["week"] = looked_at(
                "week", chromium, week.record(folder / "week"), week.SECONDS
            )
        if "list" in parts:
            (folder / "list").mkdir()
            figures["list"] = listing(chromium, folder / "list")
        if "lag" in parts:
            (folder / "lag").mkdir()
            figures["lag"] = lag(chromium, folder / "lag")
    held = all(part["held"] for part in figures.values())
    with contextlib.suppress(OSError, ValueError):  # parts that were not measured this time
        before = read("dashboard/speed")
        figures = {name: before[name] for name in PARTS if name in before} | {
            name: part | {"commit": commit()} for name, part in figures.items()
        }
    save("dashboard/speed", figures)
    print(
        "bars: "
        + ", ".join(
            f"{name} {'held' if part['held'] else 'MISSED'}" for name, part in figures.items()
        )
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
