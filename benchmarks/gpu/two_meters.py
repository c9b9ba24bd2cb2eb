"""A training's power per phase by the energy counter and by the driver's power samples.

    python -m benchmarks.gpu.two_meters [RUN]

Without a RUN it uses a training that was recorded on an H100 (tests/fixtures/h100_training.tar.xz).
The two meters belong to one card and are read in different ways. Each is attributed without the
other, so where the estimator is right they agree within their intervals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from probe.analysis.device_energy import energy_of
from probe.analysis.open import open_analyses
from probe.analysis.sensor_response import response_row
from probe.attribution.estimate import estimate
from probe.errors import ProbeError
from probe.report.sentences import short
from tests.fixtures.archives import H100_TRAINING, unpack

METERS = ("energy", "power_samples")
_LEAST_S = 0.1  # of a phase that is worth a row


def powers_by_meter(run: Path) -> dict[str, dict[str, Any]]:
    """What each meter of the first card says: its total, its response, and power per phase.

    Args:
        run: the directory of a run of one host, with one rank.

    Returns:
        By quantity: ``total_j``, ``response``, ``fit_p`` and ``phases``, which holds of each phase
        its seconds, its mean power, half its 95 % interval (W) and its status.
    """
    (analysis,) = open_analyses(run)
    meters: dict[str, dict[str, Any]] = {}
    joules = {
        device.source.id: energy_of(device.curve, analysis.run)
        for device in analysis.devices
        if device.curve is not None
    }
    for meter in analysis.meters:
        source = meter.source
        totals = analysis.owner_of(source)
        if source.quantity not in METERS or totals is None or source.quantity in meters:
            continue
        statistics = analysis.statistics_of(source, totals)
        if statistics is None:
            continue
        estimated = estimate(statistics, joules.get(source.id), totals.seconds)
        if estimated is None:
            continue
        phases = {}
        for code in estimated.codes:
            seconds = totals.seconds.get(code, 0.0)
            if seconds >= _LEAST_S:
                energy = estimated.of(code)
                phases[short(totals.name(code), 40)] = {
                    "seconds": round(seconds, 3),
                    "power_w": round(energy.energy_j / seconds, 1),
                    "half_w": round((energy.high_j - energy.low_j) / 2 / seconds, 1),
                    "status": str(energy.status),
                }
        response = response_row(estimated)
        meters[source.quantity] = {
            "total_j": round(float(estimated.energy_j.sum()), 1),
            "response": {
                "kind": response.kind,
                "mean_delay_ms": round(
                    1e3 * (response.delay_s + response.tau_s + response.window_s / 2), 2
                ),
                "period_ms": round(1e3 * response.period_s, 3),
            },
            "fit_p": round(estimated.fit.p, 5),
            "phases": phases,
        }
    return meters


def recorded_training(folder: Path) -> Path:
    """Unpack the training on an H100 of 2026-11-27 into a folder; returns the run's directory."""
    unpack(H100_TRAINING, folder)
    return next(folder.iterdir())


def main(arguments: list[str] | None = None) -> int:
    """Print a table; 1 if the meters contradict each other, 2 if there is no pair of them."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("run", type=Path, nargs="?", help="its directory")
    run = options.parse_args(arguments).run
    try:
        with tempfile.TemporaryDirectory() as folder:
            meters = powers_by_meter(run or recorded_training(Path(folder)))
    except ProbeError as error:
        print(error, file=sys.stderr)
        return 2
    if len(meters) < len(METERS):
        print(f"{run} has not both an energy counter and power samples of a card", file=sys.stderr)
        return 2
    counter, samples = (meters[name] for name in METERS)
    print(f"total: counter {counter['total_j']:.0f} J, samples {samples['total_j']:.0f} J")
    contradictions = 0
    for name, by_counter in counter["phases"].items():
        by_samples = samples["phases"].get(name)
        if by_samples is None:
            continue
        apart_w = abs(by_counter["power_w"] - by_samples["power_w"])
        agree = apart_w <= by_counter["half_w"] + by_samples["half_w"]
        contradictions += not agree
        print(
            f"{name:14} counter {_power(by_counter)}, samples {_power(by_samples)}"
            + ("" if agree else "  they contradict each other")
        )
    return 1 if contradictions else 0


def _power(phase: dict[str, Any]) -> str:
    return f"{phase['power_w']:6.0f} ± {phase['half_w']:3.0f} W ({phase['status']})"


if __name__ == "__main__":
    sys.exit(main())
