"""The dashboard."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.results import read

from .figures import Figure, Item, benchmark, tests


def pages() -> Iterator[Figure]:
    yield from tests("tests/e2e/test_dashboard_browser.py", "tests/unit/dashboard")


def fast() -> Iterator[Figure]:
    benchmark("dashboard.speed")
    result = read("dashboard/speed")
    big, list_, lag, cost = (result[name] for name in ("big", "list", "lag", "cost"))
    yield Figure(
        f"{big['samples'] / 1e6:.1f} M samples: first chart, bar 1.5 s",
        f"{big['first_s']:.2f} s",
        big["first_s"] <= 1.5,
    )
    yield Figure(
        "zoom until the finer data are drawn, bar 200 ms",
        f"{big['zoom_ms']:.0f} ms",
        big["zoom_ms"] <= 200,
    )
    yield Figure("memory of the server, bar 400 MiB", f"{big['mib']:.0f} MiB", big["mib"] <= 400)
    yield Figure(
        f"{list_['runs']} runs in a browser without a cache, bar 2 s; again, bar 1 s",
        f"{list_['list_s']:.2f} s; {list_['again_s']:.2f} s",
        list_["held"],
    )
    benchmark("dashboard.many_runs")
    many = read("dashboard/many_runs")
    for part, bar_s in (("files", 5.0), ("catalogue", 1.0), ("page", 1.0)):
        took_s = many[f"{part}_s"]
        yield Figure(
            f"list of {many['runs']} runs, {part}, bar {bar_s:.0f} s",
            f"{took_s:.2f} s",
            took_s <= bar_s,
        )
    yield Figure("from disk to screen, p95, bar 1 s", f"{lag['lag_p95_s']:.2f} s", lag["held"])
    mean, bound = cost["slower"]["looked at"]
    yield Figure(
        f"training with {cost['clients']} clients, bar 0.5 %; A/A upper "
        f"{cost['slower']['alone'][1]:.2%}",
        f"{mean:+.2%}, upper 95 % {bound:+.2%}",
        cost["held"],
    )


def guarded() -> Iterator[Figure]:
    yield from tests("tests/contract/test_dashboard_access.py")


ITEMS = [
    Item(
        26,
        "every page is whole, live and for everybody",
        pages,
        ("dashboard", "tests/e2e/test_dashboard_browser.py", "tests/unit/dashboard"),
    ),
    Item(27, "large runs and many onlookers", fast, ("dashboard", "benchmarks/dashboard/speed.py")),
    Item(
        28,
        "who may look, and what nonsense gets",
        guarded,
        ("dashboard", "tests/contract/test_dashboard_access.py"),
    ),
]
