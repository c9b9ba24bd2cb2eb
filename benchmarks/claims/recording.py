"""Watching a run: what it costs, what survives, what is never disturbed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.results import ROOT, read

from .figures import WATCHING, Figure, Item, benchmark, call, tests


def fresh_clone() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        call(["git", "clone", "--quiet", str(ROOT), str(clone)])
        begin = time.monotonic()
        call(["make", "build"], clone)
        yield Figure(
            "make build, everything installed anew",
            f"{time.monotonic() - begin:.0f} s",
            bool(list(clone.glob("dist/*.whl"))),
        )
        begin = time.monotonic()
        demo = call(["make", "demo"], clone)
        seconds = time.monotonic() - begin
        rows = [
            line
            for line in demo.stdout.splitlines()
            if line.split()[:1] in (["forward"], ["backward"], ["optimizer"])
        ]
        yield Figure(
            "make demo",
            f"exit {demo.returncode}, {seconds:.0f} s, {len(rows)} rows of named phases",
            demo.returncode == 0 and len(rows) >= 6 and seconds < 240,
        )
        done = call(["make", "test"], clone)
        last = next(
            (line.strip("= ") for line in reversed(done.stdout.splitlines()) if " passed" in line),
            "no summary",
        )
        yield Figure("make test", f"exit {done.returncode}, {last}", done.returncode == 0)


def overhead() -> Iterator[Figure]:
    benchmark("cost.overhead")
    for size, result in read("cost/overhead")["sizes"].items():
        step_us = result["step_us"]
        bar = 35.0 if size == "2 ms" else 0.005 * step_us
        for way, cost in result["ways"].items():
            text = (
                f"{cost['mean_us']:.1f} µs a step, at most {cost['upper_us']:.1f} (95 %), "
                f"{100 * cost['share']:.2f} %"
            )
            if way == "phasewatt":
                yield Figure(f"{size} step: {way}, bar {bar:.0f} µs", text, cost["upper_us"] <= bar)
            else:
                yield Figure(f"{size} step: {way}", text, True)
    benchmark("cost.startup")
    start = read("cost/startup")
    for key, what, bar in (("import_ms", "import probe", 60), ("watch_enter_ms", "watch()", 150)):
        values = sorted(start[key])
        middle = values[len(values) // 2]
        yield Figure(
            f"{what}, bar {bar} ms", f"{middle:.1f} ms, worst {values[-1]:.1f} ms", middle <= bar
        )
    heavy = start["heavy_modules_imported"]
    yield Figure("heavy modules that import probe pulls", ", ".join(heavy) or "none", not heavy)
    more = start["threads_added"]
    yield Figure("threads added to the trainer", str(more), more == 0)


def bit_identical() -> Iterator[Figure]:
    yield from tests("tests/integration/recording/test_bit_identical.py")


def kills() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/recording/test_kill.py", "tests/integration/recording/test_endings.py"
    )


def nvml_errors() -> Iterator[Figure]:
    from tests.contract.test_nvml_errors import CODES
    from tests.fakes.nvml import NvmlRig

    with tempfile.TemporaryDirectory() as folder:
        functions = len(NvmlRig(Path(folder)).functions)
    yield Figure(
        "functions × error codes, each at open and in mid-run",
        f"{functions} × {len(CODES)} = {functions * len(CODES)}",
        True,
    )
    yield from tests("tests/contract/test_nvml_errors.py")


def offline() -> Iterator[Figure]:
    yield from tests("tests/integration/recording/test_offline.py")


def loops() -> Iterator[Figure]:
    benchmark("loops")
    result = read("loops")
    cases, right = len(result["cases"]), result["right"]
    yield Figure(
        "loops × ways whose steps, counts and seconds are right, bar 9 in 10",
        f"{right} of {cases}",
        right >= 0.9 * cases,
    )
    silent = sum(bool(c["wrong"] and not c["warnings"]) for c in result["cases"])
    yield Figure("wrong without a word, bar those named beforehand", str(silent), silent <= 4)
    yield from tests("tests/loops/test_loops.py")


def month() -> Iterator[Figure]:
    benchmark("long_runs.thirty_days")
    result = read("long_runs/thirty_days")
    yield Figure("files of 30 days, bar 5,000", str(result["files"]), result["files"] <= 5000)
    yield Figure("GB of 30 days, bar 12", f"{result['gb']:.2f}", result["gb"] <= 12)
    yield Figure("its report, bar 10 s", f"{result['report_s']:.1f} s", result["report_s"] <= 10)
    yield from tests("tests/integration/recording/test_month.py")


def full_disk() -> Iterator[Figure]:
    benchmark("long_runs.full_disk")
    result = read("long_runs/full_disk")
    runs = len(result["runs"])
    yield Figure(
        "runs with a disk that is full twice, recorded and covered as they should be",
        f"{result['right']} of {runs}",
        result["right"] == runs >= 20,
    )
    yield from tests("tests/integration/recording/test_survival.py")


def half_open() -> Iterator[Figure]:
    benchmark("long_runs.half_open")
    result = read("long_runs/half_open")
    for server, worst in zip(("Prometheus", "dashboard"), result["worst_answer_s"], strict=True):
        yield Figure(f"slowest answer of {server}, bar 1 s", f"{worst:.2f} s", worst <= 1)
    complete = result["recorded"] == 1 and not result["edges_lost"]
    yield Figure("phases recorded meanwhile", f"{result['recorded']:.2%}", complete)


def recorder() -> Iterator[Figure]:
    benchmark("cost.recorder")
    result = read("cost/recorder")
    yield Figure(
        f"recorder beside {result['gpus_measured']} GPUs and 1,000 edges/s, bar 2 %",
        f"{100 * result['cpu_share']:.2f} % of a core",
        result["cpu_share"] <= 0.02,
    )
    yield Figure("on disk", f"{result['bytes_per_row']:.1f} bytes a row", True)
    benchmark("cost.recorder", "--steps", "1000000")
    result = read("cost/recorder-memory")
    for who in ("trainer", "recorder"):
        growth = result[f"{who}_growth_mib"]
        yield Figure(
            f"growth of the {who} over 10⁶ steps, bar 5 MB",
            f"{growth:.1f} MiB",
            growth * 1.048576 <= 5,
        )
    yield Figure(
        "edges kept, bar 95 %", f"{100 * result['kept_share']:.2f} %", result["kept_share"] >= 0.95
    )
    yield Figure(
        "edges neither kept nor counted as lost",
        str(result["unaccounted"]),
        result["unaccounted"] == 0,
    )


ITEMS = [
    Item(
        1,
        "a fresh clone demonstrates and tests itself",
        fresh_clone,
        ("probe", "optimizers", "exporters", "dashboard", "tests", "examples", "Makefile"),
    ),
    Item(
        2,
        "watching costs next to nothing",
        overhead,
        (
            "probe/instrument",
            "probe/session",
            "benchmarks/cost/overhead.py",
            "benchmarks/cost/startup.py",
        ),
    ),
    Item(
        3,
        "losses and weights are equal to the last bit",
        bit_identical,
        (*WATCHING, "tests/integration/recording/test_bit_identical.py"),
    ),
    Item(
        4,
        "a killed run opens and holds everything",
        kills,
        (*WATCHING, "tests/integration/recording/test_kill.py"),
    ),
    Item(
        5,
        "NVML may fail in any way at any time",
        nvml_errors,
        ("probe/sensors", "probe/recorder", "tests/contract/test_nvml_errors.py"),
    ),
    Item(
        6,
        "a run makes no network connection",
        offline,
        (*WATCHING, "tests/integration/recording/test_offline.py"),
    ),
    Item(
        7,
        "the recorder is small and stays so",
        recorder,
        ("probe/recorder", "benchmarks/cost/recorder.py"),
    ),
    Item(
        33,
        "loops that people write have the right steps and phases",
        loops,
        (*WATCHING, "probe/instrument", "probe/timeline", "benchmarks/loops.py", "tests/loops"),
    ),
    Item(
        34,
        "a month of eight ranks stays small and opens quickly",
        month,
        ("probe/recorder", "probe/store", "benchmarks/long_runs/thirty_days.py"),
    ),
    Item(
        53,
        "a full disk costs what happens while it is full, and no more",
        full_disk,
        (
            *WATCHING,
            "benchmarks/long_runs/full_disk.py",
            "tests/integration/recording/test_survival.py",
        ),
    ),
    Item(
        54,
        "500 half-open connections block neither the recording nor other clients",
        half_open,
        (*WATCHING, "exporters", "dashboard", "benchmarks/long_runs/half_open.py"),
    ),
]
