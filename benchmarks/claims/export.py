"""Prometheus, exporters, reports."""

from __future__ import annotations

from collections.abc import Iterator

from ._runner import WATCHING, Figure, Item, benchmark, result, tests


def scraped() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/export/test_prometheus.py",
        "tests/integration/export/test_metrics_endpoint.py",
    )
    benchmark("scrape.py")
    found = result("scrape")
    yield Figure(
        f"handler p95, {found['series_per_gpu']:.0f} series a GPU, bar 5 ms",
        f"{found['handler_p95_ms']:.2f} ms",
        found["handler_p95_ms"] <= 5.0,
    )
    mean, bound = found["slower"]["scraped"]
    yield Figure(
        "training slower while scraped at 1 Hz, bar 0.5 %; A/A upper "
        f"{found['slower']['alone'][1]:.2%}",
        f"{mean:.2%}, upper 95 % {bound:.2%}",
        bound <= 0.005,
    )


def handed_on() -> Iterator[Figure]:
    yield from tests(
        "tests/contract/test_exporters.py",
        "tests/contract/test_trackers.py",
        "tests/unit/exporters",
    )


def reports() -> Iterator[Figure]:
    yield from tests(
        "tests/contract/test_reports.py",
        "tests/e2e",
        "tests/unit/probe/analysis",
        "tests/unit/probe/timeline",
        "tests/integration/energy/test_summary.py",
    )
    benchmark("report_1day.py")
    found = result("report_1day")
    yield Figure(
        f"report of {found['hours']:g} h and {found['gpus']} GPUs, bars 5 s, 500 MiB",
        f"{found['seconds']} s, {found['mib']} MiB; total off by {found['total_off']:.0e}",
        found["held"],
    )


ITEMS = [
    Item(
        19,
        "a real Prometheus scrapes a live training, which does not notice",
        scraped,
        (
            *WATCHING,
            "exporters",
            "benchmarks/scrape.py",
            "tests/integration/export/test_prometheus.py",
        ),
    ),
    Item(
        20,
        "every figure that is handed on is the report's",
        handed_on,
        ("exporters", "tests/contract/test_exporters.py", "tests/contract/test_trackers.py"),
    ),
    Item(
        21,
        "reports are whole, and those of a day are there at once",
        reports,
        (
            "probe/report",
            "benchmarks/report_1day.py",
            "tests/contract/test_reports.py",
            "tests/e2e",
        ),
    ),
]
