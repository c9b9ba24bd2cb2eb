"""Prometheus, exporters, reports."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.results import read

from .figures import WATCHING, Figure, Item, benchmark, tests


def scraped() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/export/test_prometheus.py",
        "tests/integration/export/test_metrics_endpoint.py",
    )
    benchmark("cost.scrape")
    result = read("cost/scrape")
    yield Figure(
        f"handler p95, {result['series_per_gpu']:.0f} series a GPU, bar 5 ms",
        f"{result['handler_p95_ms']:.2f} ms",
        result["handler_p95_ms"] <= 5.0,
    )
    mean, bound = result["slower"]["scraped"]
    yield Figure(
        "training slower while scraped at 1 Hz, bar 0.5 %; A/A upper "
        f"{result['slower']['alone'][1]:.2%}",
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
    benchmark("long_runs.report_1day")
    result = read("long_runs/report_1day")
    yield Figure(
        f"report of {result['hours']:g} h and {result['gpus']} GPUs, bars 5 s, 500 MiB",
        f"{result['seconds']} s, {result['mib']} MiB; total off by {result['total_off']:.0e}",
        result["held"],
    )


ITEMS = [
    Item(
        19,
        "a real Prometheus scrapes a live training, which does not notice",
        scraped,
        (
            *WATCHING,
            "exporters",
            "benchmarks/cost/scrape.py",
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
            "benchmarks/long_runs/report_1day.py",
            "tests/contract/test_reports.py",
            "tests/e2e",
        ),
    ),
]
