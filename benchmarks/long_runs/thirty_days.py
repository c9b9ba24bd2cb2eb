"""A month of eight ranks and GPUs, thinned while it grows: files, GB and how long its report takes.

    python -m benchmarks.long_runs.thirty_days [--days 30] [--ranks 8] [--steps-per-s 75]

Two hours of a simulated training pass through the real recorder, with a GPU's records (device
times, allocator) and gauges of pure noise, which compress badly. Every other hour is a copy of
the second one with its times shifted. Hours that are old enough by the end of the month are
copied as the thinner leaves them; the real upkeep then runs over the whole month. The
recorder's summary is scaled to the month in the same way.

Bars for eight ranks: 5,000 files, 12 GB, a report in 10 s.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.results import machine, save
from tests.fakes.stored_run import NS

from .day import finish
from .recorded_hours import BEGIN_NS, HOUR_S, Recording, stretch
from .repeated_hours import PER_HOUR, Month
from .report_1day import timed

FILES, GB, SECONDS = 5_000, 12.0, 10.0  # the bars


def month(
    folder: Path,
    *,
    hours: int,
    ranks: int,
    steps_per_s: float,
    say: Callable[[str], object] = lambda _: None,
) -> tuple[Month, float]:
    """(a finished run of so many hours, the joules that its summary should come to)."""
    began = time.perf_counter()
    recording = Recording(folder, ranks, steps_per_s)
    ends: list[tuple[list[int], list[int]]] = []
    portions = 2 * PER_HOUR + 1  # a segment is joined with others once the next one has begun
    for portion in range(portions):
        recording.portion(BEGIN_NS + (portion + 1) * HOUR_S // PER_HOUR * NS)
        if (portion + 1) % PER_HOUR == 0:
            ranks_now = recording.ranks
            ends.append(([r.steps for r in ranks_now], [r.sequence for r in ranks_now]))
    recording.end(BEGIN_NS + portions * HOUR_S // PER_HOUR * NS)
    say(f"recorded {portions * 5} min in {time.perf_counter() - began:.0f} s")
    steps, records = (
        [b - a for a, b in zip(*pair, strict=True)] for pair in zip(*ends, strict=True)
    )
    with tempfile.TemporaryDirectory() as templates:
        store = Month(recording, hours, Path(templates), steps, records)
        for hour in range(2, hours):
            store.add(hour)
            if (hour + 1) % 6 == 0 or hour + 1 == hours:
                store.tidy(hour + 1)
            if (hour + 1) % 24 == 0:
                files, size = store.size()
                say(f"written to day {(hour + 1) // 24:3}: {files:6} files, {size / 1e9:6.2f} GB")
    true_j = stretch(recording.run, hours * PER_HOUR / portions)
    end_ns = BEGIN_NS + hours * HOUR_S * NS
    finish(recording.run, BEGIN_NS, end_ns, steps=hours * steps[0])
    return store, true_j


def by_kind(run: Path) -> Counter[str]:
    """Bytes of each kind of file."""
    sizes: Counter[str] = Counter()
    for path in run.rglob("*.parquet"):
        kind = path.name.partition("-")[0]
        thin = " thinned" if path.stem.endswith("-thin") else ""
        sizes[(f"rollups of {kind}" if "rollup" in path.parts else kind) + thin] += (
            path.stat().st_size
        )
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=8, help="and GPUs")
    parser.add_argument("--steps-per-s", type=float, default=75.0)
    options = parser.parse_args()
    print(json.dumps(machine()))

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        store, true_j = month(
            Path(folder),
            hours=options.days * 24,
            ranks=options.ranks,
            steps_per_s=options.steps_per_s,
            say=say,
        )
        made_s = time.perf_counter() - began
        run = store.recording.run
        files, size = store.size()
        for kind, bytes_ in by_kind(run).most_common():
            print(f"  {kind:24} {bytes_ / 1e9:7.3f} GB")
        seconds, mib, report = min((timed(run) for _ in range(3)), key=lambda timing: timing[0])
    result = {
        "days": options.days,
        "ranks": options.ranks,
        "steps_per_s": options.steps_per_s,
        "files": files,
        "gb": round(size / 1e9, 2),
        "report_s": round(seconds, 2),
        "report_mib": round(mib),
        "total_off": report["total"]["energy_j"] / true_j - 1,
        "said": [line for line in report["warnings"] if "thinned" in line],
    }
    for key, value in result.items():
        print(f"{key:12} {value}")
    print(f"made in {made_s:.0f} s")
    eighth = options.ranks / 8
    held = files <= FILES and size / 1e9 <= GB * eighth and seconds <= SECONDS and result["said"]
    if options.ranks != 8:
        print(f"eight ranks: about {size / 1e9 / eighth:.1f} GB; the bar counts in proportion")
    print("bars held" if held else "bars MISSED")
    if (options.days, options.ranks, options.steps_per_s) == (30, 8, 75.0):
        save("long_runs/thirty_days", result)
    sys.exit(not held)


if __name__ == "__main__":
    main()
