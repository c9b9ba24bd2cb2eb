"""A live training under the real Prometheus: what it scrapes, what its own tool says of it."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.fakes import processes
from tests.fakes.grafana_queries import queries
from tests.fakes.nvml import NvmlRig
from tests.fakes.nvml_calibration import calibrated
from tests.fakes.prometheus_server import (
    RULES,
    fetch,
    needs_prometheus,
    query,
    server,
    single,
    wait_for,
)

pytestmark = pytest.mark.paced

# Two phases whose power the rig takes. Arguments: the port, and a file that ends it.
TRAINING = f"""
import os, random, sys, time
sys.path.insert(0, {str(processes.ROOT)!r})
import probe, torch
from tests.fakes.nvml import NvmlRig
rig = NvmlRig.attach(os.environ["NVML_RIG"])
weight = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([weight], 1e-3)
with probe.watch(name="live", prometheus=int(sys.argv[1])) as run:
    print(run.path, flush=True)
    while not os.path.exists(sys.argv[2]):
        with run.phase("hot"):
            rig.set_power(0, 400.0)
            time.sleep(random.uniform(0.02, 0.05))
        with run.phase("cool"):
            rig.set_power(0, 100.0)
            time.sleep(random.uniform(0.01, 0.04))
        weight.square().sum().backward()
        optimizer.step()
"""


def watts_of(phase: str) -> str:
    return (
        f'sum(rate(phasewatt_phase_energy_joules_total{{device="gpu0",phase="{phase}"}}[8s])) / '
        f'sum(rate(phasewatt_phase_time_seconds_total{{phase="{phase}"}}[8s]))'
    )


@needs_prometheus
def test_the_real_server_sees_the_watts_of_a_live_training(tmp_path: Path) -> None:
    rig = NvmlRig(tmp_path, gpus=2, power_w=150.0, period_s=0.1)
    rig.gpu(0).gpm = 2
    port = processes.free_port()
    seconds, stop = 40.0, tmp_path / "stop"
    # Calibrated, or the first 45 s would go by before phases are known.
    env = rig.env() | calibrated(rig, tmp_path / "calibration")
    process = processes.start(TRAINING, tmp_path, str(port), str(stop), extra=env)
    assert process.stdout is not None
    run = Path(process.stdout.readline().strip())
    began = time.monotonic()
    metrics = f"http://127.0.0.1:{port}/metrics"
    try:
        wait_for(metrics, "phasewatt_gpu_energy_joules_total")
        with server(tmp_path / "prometheus", port) as base:
            while time.monotonic() - began < seconds:
                time.sleep(0.5)
            # Both phases have been told apart for longer than the rates below look back.
            assert processes.wait_until(
                lambda: all(query(base, watts_of(name), ago_s=10.0) for name in ("hot", "cool"))
            )
            text = fetch(metrics)
            checked = subprocess.run(
                ["promtool", "check", "metrics"],
                input=text,
                capture_output=True,
                text=True,
                check=False,
            )
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert single(base, 'up{job="phasewatt"}') == 1
            # The idle card draws 150 W; the other's true mean is the rig's tape. The slope, for a
            # rate has the first and the last value alone: a page that is a second late is 3 %.
            watts = single(base, 'deriv(phasewatt_gpu_energy_joules_total{device="gpu1"}[30s])')
            assert watts == pytest.approx(150.0, rel=0.05)  # scrapes of a busy machine are late
            tape = rig.gpu(0).tape[: rig.gpu(0).tape_count]
            now = tape[-1].time_ns
            recent = [(a, b) for a, b in itertools.pairwise(tape) if b.time_ns > now - 30e9]
            true = sum(a.watts * (b.time_ns - a.time_ns) for a, b in recent) / (
                recent[-1][1].time_ns - recent[0][0].time_ns
            )
            watts = single(base, 'deriv(phasewatt_gpu_energy_joules_total{device="gpu0"}[30s])')
            assert watts == pytest.approx(true, rel=0.03)  # the window is not quite the same
            # Counters of phases add up to the device's, and none ever fell.
            for device in ("gpu0", "gpu1"):
                off = single(
                    base,
                    f'sum(phasewatt_phase_energy_joules_total{{device="{device}"}}) / '
                    f'sum(phasewatt_gpu_energy_joules_total{{device="{device}"}})',
                )
                assert off == pytest.approx(1.0, abs=1e-6)
            assert all(
                float(row["value"][1]) == 0
                for row in query(base, "resets(phasewatt_phase_energy_joules_total[2m])")
            )
            # Over less than since the second estimate: what was used before a phase was first told
            # apart is not its own, and on a busy machine that takes more than one.
            # A counter does not fall: where an estimate was too high it stands still for a while.
            assert processes.wait_until(
                lambda: (
                    single(base, watts_of("hot")) == pytest.approx(400.0, rel=0.15)
                    and single(base, watts_of("cool")) == pytest.approx(100.0, rel=0.3)
                ),
                seconds=60.0,
            ), [single(base, watts_of(name)) for name in ("hot", "cool")]
            assert query(base, "run:phasewatt_gpu_power_watts:rate1m")
            assert not query(base, 'ALERTS{alertname="RunStalled"}')
            # Every query of the Grafana dashboard finds something.
            for expression in queries():
                asked = expression.replace("$__rate_interval", "15s").replace("$run", ".*")
                assert query(base, asked), asked
            assert query(base, "phasewatt_run_info")[0]["metric"]["run"] == run.name
            # The end: the totals are fetched once more, then the series vanish.
            stop.touch()
            process.communicate(timeout=processes.HUNG_S)
            ended = time.monotonic()
            # Over some time: right after the fetch the series is gone.
            while not query(base, "max_over_time(phasewatt_run_ended[2m]) == 1"):
                assert time.monotonic() - ended < processes.HUNG_S, "the totals were never fetched"
                time.sleep(0.3)
            last = single(base, "sum(last_over_time(phasewatt_gpu_energy_joules_total[2m]))")
            out = processes.probe(tmp_path, "report", str(run), "--format", "json")
            total = json.loads(out.stdout)["total"]["energy_j"]
            assert last == pytest.approx(total, rel=0.01)
            while query(base, "up") and single(base, "up") == 1:
                assert time.monotonic() - ended < processes.HUNG_S, "the recorder stays for ever"
                time.sleep(0.5)
            assert not query(base, "phasewatt_gpu_energy_joules_total")
    finally:
        process.kill()
        process.communicate()


@needs_prometheus
def test_rules_are_valid_and_do_what_they_say() -> None:
    for command in (
        ["check", "rules", "phasewatt.rules.yml"],
        ["test", "rules", "phasewatt.test.yml"],
    ):
        done = subprocess.run(
            ["promtool", *command], cwd=RULES, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
