"""Energy: totals and phases, known and simulated."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.results import read

from .figures import WATCHING, Figure, Item, benchmark, tests


def thousand_joules() -> Iterator[Figure]:
    from tests.fakes import processes
    from tests.fakes.nvml import NvmlRig

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rig = NvmlRig(place, gpus=2, power_w=250.0, period_s=0.1)
        processes.run(
            processes.PLAIN, place, "4.0", extra=rig.env() | {"CUDA_VISIBLE_DEVICES": "1"}
        )
        output = processes.probe(place, "report", "latest", "--format", "json").stdout
    report = json.loads(output)
    truth = 250.0 * report["run"]["duration_s"]
    total = report["total"]
    yield Figure(
        f"250 W for {report['run']['duration_s']:.3f} s = {truth:.1f} J, bar ± 25 J",
        f"{total['energy_j']:.1f} J",
        abs(total["energy_j"] - truth) <= 25.0,
    )
    modelled = total["modelled_energy_j"]
    yield Figure("the modelled CPU beside it", f"{modelled} J", bool(modelled))
    counted = [s["uuid"] for s in report["sources"] if s["in_total"]]
    yield Figure(
        "of two cards the visible one is counted", ", ".join(counted), counted == [rig.uuid(1)]
    )
    yield from tests("tests/integration/energy/test_totals.py")


def simulated_joules() -> Iterator[Figure]:
    benchmark("energy.attribution")
    result = read("energy/attribution")
    for scene in result["scenes"]:
        inferred = scene["inferred"]
        text = (
            f"{inferred['misattributed']:.2f} % misattributed, by time "
            f"{scene['others'].get('time split', float('nan')):.1f}; "
            f"{inferred['resolved_held']} of {inferred['resolved_intervals']} resolved intervals "
            f"hold; resolved {inferred['resolved_phases']:.0f} % of phases, "
            f"{inferred['resolved_energy']:.0f} % of energy"
        )
        missed = "; ".join(scene["missed"])
        yield Figure(
            f"{scene['step']} steps, {scene['name']}",
            f"{text}{'; missed ' if missed else ''}{missed}",
            not missed,
        )
    held, number = result["grid_held"], result["grid_intervals"]
    yield Figure(
        "resolved intervals under any delay and lag, bar 93 %",
        f"{held} of {number} hold",
        held >= 0.93 * number,
    )
    locked = result["locked"]
    yield Figure(
        "locked steps: none resolved, bounds hold",
        f"{locked['none_resolved']} and {locked['bounds_hold']} of {locked['seeds']}",
        locked["none_resolved"] == locked["bounds_hold"] == locked["seeds"],
    )


def recorded_joules() -> Iterator[Figure]:
    benchmark("energy.recorded")
    try:
        result = read("energy/recorded")
    except FileNotFoundError:
        return  # no recordings here: the benchmark has said so
    for name, responses in result["recordings"].items():
        for response, figures in responses.items():
            missed = "; ".join(figures["missed"])
            yield Figure(
                f"power of {name}, response {response}",
                f"{figures['misattributed_median']:.2f} % misattributed, {figures['held']} of "
                f"{figures['resolved']} hold{'; missed ' if missed else ''}{missed}",
                not missed,
            )


def joules_end_to_end() -> Iterator[Figure]:
    benchmark("energy.end_to_end")
    result = read("energy/end_to_end")
    for world, figures in result["worlds"].items():
        yield Figure(
            f"real training, {world}",
            f"{figures['misattributed_median']:.2f} % misattributed, {figures['held']} of "
            f"{figures['resolved']} resolved intervals hold",
            figures["held"] >= 0.85 * figures["resolved"],
        )
    every = result["all"]
    yield Figure(
        "all of them, bars 120 and a lower bound of 88 %",
        f"{every['held']} of {every['resolved']}, lower bound {every['lower_bound']:.1%}",
        every["resolved"] >= 120 and every["lower_bound"] >= 0.88,
    )


def streamed_joules() -> Iterator[Figure]:
    yield from tests(
        "tests/unit/probe/attribution/test_accumulator.py",
        "tests/unit/probe/recorder/test_attribution.py",
    )
    benchmark("cost.recorder", "--seconds", "60", "--period", "0.02")
    result = read("cost/recorder-20ms")
    warning = f", {result['warnings'][0]}" if result["warnings"] else ""
    yield Figure(
        f"recorder beside {result['gpus_measured']} GPUs with 20 ms counters, bar 15 %",
        f"{100 * result['cpu_share']:.1f} % of a core{warning}",
        result["cpu_share"] <= 0.15,
    )


def real_joules() -> Iterator[Figure]:
    yield from tests("tests/integration/energy/test_phase_energy.py")


def demo() -> Iterator[Figure]:
    benchmark("energy.demo")
    result = read("energy/demo")
    each = ", ".join(
        f"{phase} {row['resolved']} resolved, {row['held']} hold the truth"
        for phase, row in result["phases"].items()
    )
    yield Figure(f"of {result['runs']} demos, bar 90 % of forward and backward", each, result["ok"])


def levels() -> Iterator[Figure]:
    yield from tests(
        "tests/unit/probe/analysis/test_rates.py",
        "tests/unit/probe/timeline/test_allocator_levels.py",
        "tests/unit/probe/timeline/test_phase_levels.py",
        "tests/integration/energy/test_usage.py",
    )


ITEMS = [
    Item(
        8,
        "known joules come out as such",
        thousand_joules,
        (*WATCHING, "tests/integration/energy/test_totals.py"),
    ),
    Item(
        9,
        "joules per phase of simulated runs, and their intervals",
        simulated_joules,
        ("probe/attribution", "benchmarks/energy/attribution.py", "benchmarks/energy/worlds.py"),
    ),
    Item(
        10,
        "streamed and from raw data the joules are the same",
        streamed_joules,
        ("probe/recorder", "benchmarks/cost/recorder.py", "tests/unit/probe/attribution"),
    ),
    Item(
        35,
        "joules per phase where power is that of real cards",
        recorded_joules,
        ("probe/attribution", "benchmarks/energy/recorded.py"),
    ),
    Item(
        36,
        "joules per phase of real trainings under any sensor",
        joules_end_to_end,
        (*WATCHING, "benchmarks/energy/end_to_end.py"),
    ),
    Item(
        11,
        "intervals of real training processes hold the truth",
        real_joules,
        (*WATCHING, "tests/integration/energy/test_phase_energy.py"),
    ),
    Item(
        37,
        "the demo's joules beside the simulated card's",
        demo,
        (*WATCHING, "probe/demo", "probe/simulated_card", "benchmarks/energy/demo.py"),
    ),
    Item(
        47,
        "memory, utilisation and cores of each phase are what they were",
        levels,
        (
            *WATCHING,
            "tests/unit/probe/analysis/test_rates.py",
            "tests/unit/probe/timeline",
            "tests/integration/energy/test_usage.py",
        ),
    ),
]
