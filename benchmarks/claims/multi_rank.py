"""Many ranks, many hosts."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.results import read

from .figures import WATCHING, Figure, Item, benchmark, tests


def ranks() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/ranks/test_ranks.py",
        "tests/integration/ranks/test_engines.py",
        "tests/unit/probe/session/test_job.py",
    )


def hosts() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/ranks/test_hosts.py", "tests/integration/ranks/test_fleet.py"
    )


def reductions() -> Iterator[Figure]:
    benchmark("training.communication")
    for line in read("training/communication")["lines"]:
        yield Figure(
            f"{line['megabytes']:.0f} MB of gradients, k = {line['k']}, bar 20 %",
            f"{1e3 * line['ours_s']:.2f} ms, independently {1e3 * line['truth_s']:.2f} ms: "
            f"{line['off']:+.1%}",
            abs(line["off"]) <= 0.20,
        )
    yield from tests(
        "tests/unit/probe/timeline/test_ddp_reductions.py",
        "tests/unit/probe/timeline/test_rank_waiting.py",
    )


def hooks() -> Iterator[Figure]:
    benchmark("cost.hook_cpu_warm")
    for line in read("cost/hook_cpu_warm")["lines"]:
        yield Figure(
            f"CPU time in hooks, rank {line['rank']} of {line['ranks']}, bar 35 µs a step",
            f"{line['us']:.1f} ± {line['half_us']:.1f} µs",
            line["us"] + line["half_us"] <= 35.0,
        )


ITEMS = [
    Item(
        29,
        "several ranks are one run, each joule once, whoever is killed",
        ranks,
        (*WATCHING, "tests/integration/ranks/test_ranks.py"),
    ),
    Item(
        30,
        "several hosts are one job, clocks and all",
        hosts,
        (*WATCHING, "tests/integration/ranks/test_hosts.py"),
    ),
    Item(
        31,
        "what reducing gradients costs",
        reductions,
        (*WATCHING, "optimizers/training", "benchmarks/training/communication.py"),
    ),
    Item(
        32,
        "what hooks cost every rank",
        hooks,
        (
            "probe/instrument",
            "probe/session",
            "benchmarks/cost/hook_cpu_warm.py",
            "benchmarks/cost/stopwatch.pyx",
        ),
    ),
]
