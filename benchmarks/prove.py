"""Every promise of the project at full size, one figure a line.

    python benchmarks/prove.py              all that was not shown yet for these sources
    python benchmarks/prove.py 2 7          these two
    python benchmarks/prove.py --again      all, whatever was shown before

A result is kept in results/prove-<number>.json with a digest of the sources that it holds for, so
that an interrupted run goes on where it was. Takes about two hours, alone on the machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from common import RESULTS, ROOT, machine, source_files

sys.path.insert(0, str(ROOT))


@dataclass(frozen=True)
class Figure:
    """One printed line: what was looked at, what was found, and does it hold."""

    what: str
    found: str
    ok: bool


@dataclass(frozen=True)
class Item:
    """One promise and how it is shown."""

    number: int
    promise: str
    show: Callable[[], Iterator[Figure]]


# -- how things are run --------------------------------------------------------------------


def call(command: list[str], where: Path = ROOT, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run to the end; the tail of what a failed command said goes to stderr."""
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False,
                          env=os.environ | extra)
    if done.returncode:
        tail = (done.stdout + done.stderr).splitlines()[-30:]
        print(*(f"    | {line}" for line in tail), sep="\n", file=sys.stderr)
    return done


def benchmark(name: str, *options: str) -> int:
    """The exit status of one of our neighbours: 0 if its own bars hold."""
    script = str(Path(__file__).with_name(name))
    return call([sys.executable, script, *options], OMP_NUM_THREADS="2").returncode


def result(name: str) -> Any:
    """What a benchmark has just saved."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def tests(*paths: str) -> Iterator[Figure]:
    """A line for each test function: how many of its cases passed. A skipped one shows nothing."""
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "results.xml"
        call([sys.executable, "-m", "pytest", "-q", "--timeout=7200", f"--junitxml={xml}", *paths],
             PROVE="1")
        cases = list(ElementTree.parse(xml).iter("testcase")) if xml.exists() else []
    names = dict.fromkeys(case.get("name", "").partition("[")[0] for case in cases)
    for name in names:
        mine = [case for case in cases if case.get("name", "").partition("[")[0] == name]
        skipped = [case for case in mine if case.find("skipped") is not None]
        bad = [c for c in mine if c.find("failure") is not None or c.find("error") is not None]
        found = f"{len(mine) - len(skipped) - len(bad)} of {len(mine)}"
        if skipped:
            found += f", skipped: {skipped[0].find('skipped').get('message')}"  # type: ignore[union-attr]
        yield Figure(name.removeprefix("test_").replace("_", " "), found, not bad)
    shown = len([c for c in cases if not len(c)])
    yield Figure("tests that were really run", str(shown), shown > 0)


# -- the promises --------------------------------------------------------------------------


def fresh_clone() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        call(["git", "clone", "--quiet", str(ROOT), str(clone)])
        for path in source_files():  # what is not committed yet belongs to it
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, clone / path)
        begin = time.monotonic()
        call(["make", "build"], clone)
        yield Figure("make build, everything installed anew",
                     f"{time.monotonic() - begin:.0f} s", bool(list(clone.glob("dist/*.whl"))))
        begin = time.monotonic()
        demo = call(["make", "demo"], clone)
        seconds = time.monotonic() - begin
        rows = [line for line in demo.stdout.splitlines()
                if line.split()[:1] in (["forward"], ["backward"], ["optimizer"])]
        yield Figure("make demo", f"exit {demo.returncode}, {seconds:.0f} s, {len(rows)} rows of "
                     "named phases", demo.returncode == 0 and len(rows) >= 6 and seconds < 240)
        done = call(["make", "test"], clone)
        last = next((line.strip("= ") for line in reversed(done.stdout.splitlines())
                     if " passed" in line), "no summary")
        yield Figure("make test", f"exit {done.returncode}, {last}", done.returncode == 0)


def overhead() -> Iterator[Figure]:
    benchmark("overhead.py")
    for size, found in result("overhead")["sizes"].items():
        step_us = found["step_us"]
        bar = 35.0 if size == "2 ms" else 0.005 * step_us
        for way, cost in found["ways"].items():
            text = (f"{cost['mean_us']:.1f} µs a step, at most {cost['upper_us']:.1f} (95 %), "
                    f"{100 * cost['share']:.2f} %")
            if way == "phasewatt":
                yield Figure(f"{size} step: {way}, bar {bar:.0f} µs", text,
                             cost["upper_us"] <= bar)
            else:
                yield Figure(f"{size} step: {way}", text, True)
    benchmark("startup.py")
    start = result("startup")
    for key, what, bar in (("import_ms", "import probe", 60), ("watch_enter_ms", "watch()", 150)):
        values = sorted(start[key])
        middle = values[len(values) // 2]
        yield Figure(f"{what}, bar {bar} ms", f"{middle:.1f} ms, worst {values[-1]:.1f} ms",
                     middle <= bar)
    heavy = start["heavy_modules_imported"]
    yield Figure("heavy modules that import probe pulls", ", ".join(heavy) or "none", not heavy)
    more = start["threads_added"]
    yield Figure("threads added to the trainer", str(more), more == 0)


def bit_identical() -> Iterator[Figure]:
    yield from tests("tests/integration/test_bit_identical.py")


def kills() -> Iterator[Figure]:
    yield from tests("tests/integration/test_kill.py")


def nvml_errors() -> Iterator[Figure]:
    from tests.contract.test_nvml_errors import CODES
    from tests.rigs.nvml import NvmlRig

    with tempfile.TemporaryDirectory() as folder:
        functions = len(NvmlRig(Path(folder)).functions)
    yield Figure("functions × error codes, each at open and in mid-run",
                 f"{functions} × {len(CODES)} = {functions * len(CODES)}", True)
    yield from tests("tests/contract/test_nvml_errors.py")


def offline() -> Iterator[Figure]:
    yield from tests("tests/integration/test_offline.py")


def recorder() -> Iterator[Figure]:
    benchmark("recorder.py", "--seconds", "60")
    found = result("recorder")
    yield Figure(f"recorder beside {found['gpus_measured']} GPUs and 1,000 edges/s, bar 2 %",
                 f"{100 * found['cpu_share']:.2f} % of a core", found["cpu_share"] <= 0.02)
    yield Figure("on disk", f"{found['bytes_per_row']:.1f} bytes a row", True)
    benchmark("recorder.py", "--steps", "1000000")
    found = result("recorder-memory")
    for who in ("trainer", "recorder"):
        growth = found[f"{who}_growth_mib"]
        yield Figure(f"growth of the {who} over 10⁶ steps, bar 5 MB",
                     f"{growth:.1f} MiB", growth * 1.048576 <= 5)
    yield Figure("edges kept, bar 95 %", f"{100 * found['kept_share']:.2f} %",
                 found["kept_share"] >= 0.95)
    yield Figure("edges neither kept nor counted as lost", str(found["unaccounted"]),
                 found["unaccounted"] == 0)


def thousand_joules() -> Iterator[Figure]:
    from tests.integration import scripts
    from tests.rigs.nvml import NvmlRig

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rig = NvmlRig(place, gpus=2, power_w=250.0, period_s=0.1)
        scripts.run(scripts.PLAIN, place, "4.0",
                    extra=rig.env() | {"CUDA_VISIBLE_DEVICES": "1"})
        told = scripts.probe(place, "report", "latest", "--format", "json").stdout
    report = json.loads(told)
    truth = 250.0 * report["run"]["duration_s"]
    total = report["total"]
    yield Figure(f"250 W for {report['run']['duration_s']:.3f} s = {truth:.1f} J, bar ± 25 J",
                 f"{total['energy_j']:.1f} J", abs(total["energy_j"] - truth) <= 25.0)
    modelled = total["modelled_energy_j"]
    yield Figure("the modelled CPU beside it", f"{modelled} J", bool(modelled))
    counted = [s["uuid"] for s in report["sources"] if s["in_total"]]
    yield Figure("of two cards the visible one is counted", ", ".join(counted),
                 counted == [rig.uuid(1)])
    yield from tests("tests/integration/test_totals.py")


def simulated_joules() -> Iterator[Figure]:
    benchmark("attribution.py")
    found = result("attribution")
    for period, worlds in found["periods"].items():
        for world, steps in worlds.items():
            for step, figures in steps.items():
                wrong = figures["misattributed"]
                text = (
                    f"{wrong['ours']:.2f} % misattributed, p95 {figures['misattributed_p95']:.2f}"
                    + (f", endpoints {wrong['endpoints']:.1f}" if "endpoints" in wrong else "")
                    + f"; coverage {figures['coverage']:.1f}, worst phase "
                    f"{min(figures['coverage_by_phase'].values()):.0f}; resolved "
                    f"{figures['resolved_phases']:.0f} % of phases, "
                    f"{figures['resolved_energy']:.0f} % of energy"
                )
                missed = "; ".join(figures["missed"])
                yield Figure(f"{float(period) * 1e3:g} ms counter, {step} steps, {world}",
                             f"{text}{'; ' if missed else ''}{missed}", not missed)
    locked = found["locked"]
    yield Figure("locked steps: none resolved, bounds hold",
                 f"{locked['none_resolved']} and {locked['bounds_hold']} of {locked['seeds']}",
                 locked["none_resolved"] == locked["bounds_hold"] == locked["seeds"])


def streamed_joules() -> Iterator[Figure]:
    yield from tests("tests/unit/probe/attribution/test_stream.py",
                     "tests/unit/probe/recorder/test_attributing.py")
    benchmark("recorder.py", "--seconds", "60", "--period", "0.02")
    found = result("recorder-20ms")
    said = f", {found['warnings'][0]}" if found["warnings"] else ""
    yield Figure(f"recorder beside {found['gpus_measured']} GPUs with 20 ms counters, bar 15 %",
                 f"{100 * found['cpu_share']:.1f} % of a core{said}", found["cpu_share"] <= 0.15)


def real_joules() -> Iterator[Figure]:
    yield from tests("tests/integration/test_phase_energy.py")


def equations() -> Iterator[Figure]:
    yield from tests("tests/unit/optimizers/test_equations.py")
    yield from tests("tests/integration/test_training.py", "-k", "variance or variable")


def books() -> Iterator[Figure]:
    benchmark("accumulation.py", "--blocks", "60")
    found = result("accumulation")
    for name, bar in (("variance", 0.03), ("stack", 0.05)):
        row = found["ways"][name]
        yield Figure(f"{name}: share of a step of {found['parameters'] / 1e6:.1f} M parameters, "
                     f"bar {bar:.0%}; A/A upper {found['ways']['A/A']['upper']:.2%}",
                     f"{row['mean']:.2%}, upper 95 % {row['upper']:.2%}", row["upper"] <= bar)


def loops() -> Iterator[Figure]:
    yield from tests("tests/unit/optimizers/test_equations.py", "-k", "bit_identical")
    benchmark("trainer.py", "--rounds", "16")
    found = result("trainer")
    ways = found["ways"]
    mine = ways["phasewatt"]
    for name, row in ways.items():
        better = name in ("hand-written", "phasewatt") or mine["median_us"] < row["median_us"]
        yield Figure(f"{name} adds to a step", f"{row['median_us']} µs", better)
    large = found["large"]["ours"]
    yield Figure("≤ 1 % of a larger step", f"{large['mean']:.2%}, upper 95 % {large['upper']:.2%}",
                 large["upper"] <= 0.01)


def stacks() -> Iterator[Figure]:
    yield from tests("tests/integration/test_training.py", "-k",
                     "subset or paper or refused or third_party or compressed")


def memory() -> Iterator[Figure]:
    yield from tests("tests/integration/test_memory.py")


def resumes() -> Iterator[Figure]:
    yield from tests("tests/integration/test_resume.py")


def wrong_data() -> Iterator[Figure]:
    yield from tests("tests/integration/test_examples.py")


def scraped() -> Iterator[Figure]:
    yield from tests("tests/integration/test_prometheus.py")
    benchmark("scrape.py")
    found = result("scrape")
    yield Figure(f"handler p95, {found['series_per_gpu']:.0f} series a GPU, bar 5 ms",
                 f"{found['handler_p95_ms']:.2f} ms", found["handler_p95_ms"] <= 5.0)
    mean, bound = found["slower"]["scraped"]
    yield Figure("training slower while scraped at 1 Hz, bar 0.5 %; A/A upper "
                 f"{found['slower']['alone'][1]:.2%}",
                 f"{mean:.2%}, upper 95 % {bound:.2%}", bound <= 0.005)


def handed_on() -> Iterator[Figure]:
    yield from tests("tests/contract/test_exporters.py", "tests/contract/test_trackers.py",
                     "tests/unit/exporters")


def reports() -> Iterator[Figure]:
    yield from tests("tests/contract/test_reports.py", "tests/browser", "tests/unit/probe/account",
                     "tests/integration/test_summary.py")
    benchmark("day.py")
    found = result("day")
    yield Figure(f"report of {found['hours']:g} h and {found['gpus']} GPUs, bars 5 s, 500 MiB",
                 f"{found['seconds']} s, {found['mib']} MiB; total off by "
                 f"{found['total_off']:.0e}", found["held"])


ITEMS = [
    Item(1, "a fresh clone demonstrates and tests itself", fresh_clone),
    Item(2, "watching costs next to nothing", overhead),
    Item(3, "losses and weights are equal to the last bit", bit_identical),
    Item(4, "a killed run opens and holds everything", kills),
    Item(5, "NVML may fail in any way at any time", nvml_errors),
    Item(6, "a run makes no network connection", offline),
    Item(7, "the recorder is small and stays so", recorder),
    Item(8, "known joules come out as such", thousand_joules),
    Item(9, "joules per phase of simulated runs, and their intervals", simulated_joules),
    Item(10, "streamed and from raw data the joules are the same", streamed_joules),
    Item(11, "intervals of real training processes hold the truth", real_joules),
    Item(12, "the paper's equations hold, on one rank, under DDP and ZeRO", equations),
    Item(13, "variance and the stack's books cost little", books),
    Item(14, "the trainer is the hand-written loop, and adds least of all", loops),
    Item(15, "stacks train, impossible ones are refused", stacks),
    Item(16, "checkpointing frees the memory that was predicted", memory),
    Item(17, "a killed training goes on as if nothing had been", resumes),
    Item(18, "wrong data and failing trainings get one line", wrong_data),
    Item(19, "a real Prometheus scrapes a live training, which does not notice", scraped),
    Item(20, "every figure that is handed on is the report's", handed_on),
    Item(21, "reports are whole, and those of a day are there at once", reports),
]


# -- resume and print ----------------------------------------------------------------------


def digest() -> str:
    """Of all sources, committed or not: a result holds for exactly these."""
    total = hashlib.sha256()
    for path in source_files():
        if path.suffix != ".md":
            total.update(str(path).encode() + b"\0" + (ROOT / path).read_bytes())
    return total.hexdigest()[:16]


def shown(item: Item, sources: str) -> bool | None:
    """Was it shown for these sources? None: not tried yet."""
    try:
        kept = json.loads((RESULTS / f"prove-{item.number}.json").read_text())
    except (OSError, ValueError):
        return None
    return bool(kept["ok"]) if kept["sources"] == sources else None


def prove(item: Item, sources: str) -> bool:
    begin, figures = time.monotonic(), []
    print(f"\n{item.number}  {item.promise}", flush=True)
    try:
        for figure in item.show():
            figures.append(figure)
            say(figure)
    except Exception as error:  # the other promises are still to be shown
        figures.append(Figure("could not be shown", f"{type(error).__name__}: {error}", False))
        say(figures[-1])
    ok = all(figure.ok for figure in figures)
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "promise": item.promise, "ok": ok, "sources": sources, "machine": machine(),
        "seconds": round(time.monotonic() - begin),
        "figures": [f"{line.what}: {line.found}{'' if line.ok else '  MISSED'}"
                    for line in figures],
    }
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    (RESULTS / f"prove-{item.number}.json").write_text(text + "\n")
    return ok


def say(figure: Figure) -> None:
    print(f"   {'ok    ' if figure.ok else 'MISSED'} {figure.what}: {figure.found}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("items", nargs="*", type=int, help="numbers of promises (all)")
    options.add_argument("--again", action="store_true", help="also what was shown already")
    args = options.parse_args()
    sources, missed = digest(), []
    for item in ITEMS:
        if args.items and item.number not in args.items:
            continue
        if not args.again and shown(item, sources):
            kept = json.loads((RESULTS / f"prove-{item.number}.json").read_text())
            print(f"\n{item.number}  {item.promise} (shown before)")
            print(*(f"   ok     {line}" for line in kept["figures"]), sep="\n", flush=True)
        elif not prove(item, sources):
            missed.append(str(item.number))
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall shown")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
