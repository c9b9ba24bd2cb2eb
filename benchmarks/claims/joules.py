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
    for period, worlds in result["periods"].items():
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
                yield Figure(
                    f"{float(period) * 1e3:g} ms counter, {step} steps, {world}",
                    f"{text}{'; ' if missed else ''}{missed}",
                    not missed,
                )
    locked = result["locked"]
    yield Figure(
        "locked steps: none resolved, bounds hold",
        f"{locked['none_resolved']} and {locked['bounds_hold']} of {locked['seeds']}",
        locked["none_resolved"] == locked["bounds_hold"] == locked["seeds"],
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
        ("probe/attribution", "benchmarks/energy/attribution.py"),
    ),
    Item(
        10,
        "streamed and from raw data the joules are the same",
        streamed_joules,
        ("probe/recorder", "benchmarks/cost/recorder.py", "tests/unit/probe/attribution"),
    ),
    Item(
        11,
        "intervals of real training processes hold the truth",
        real_joules,
        (*WATCHING, "tests/integration/energy/test_phase_energy.py"),
    ),
]
