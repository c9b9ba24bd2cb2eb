"""The energy counter of the stand-in NVML under every response, in virtual time.

The oracle is the simulated counter, which test_power_sensors.py holds against plain sums.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.nvml import NvmlRig
from tests.fakes.power_sensors import Counter
from tests.fakes.power_traces import Trace
from tests.fakes.sensor_driver import in_child

NS = 1_000_000_000
SETTLED_S = 3.0  # power stood still for so long before the oracle's first edge


def started(tmp_path: Path, **rig: Any) -> tuple[NvmlRig, Any, Any]:
    """A rig in virtual time, and the function that reads its counter, J."""
    import pynvml

    made = NvmlRig(tmp_path, virtual=True, **rig)
    made.load()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return made, made.clock(), lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3


def random_power(rig: NvmlRig, seconds: float, lags: tuple[tuple[float, float], ...]) -> Trace:
    """Write pieces of 1 to 60 ms from now on; the same as a trace that begins now."""
    rng = np.random.default_rng(3)
    lengths_ns = (rng.uniform(0.001, 0.06, int(seconds / 0.03) + 50) * NS).astype(np.int64)
    edges_ns = np.concatenate([[0], np.cumsum(lengths_ns)])
    watts = rng.uniform(80.0, 600.0, len(lengths_ns))
    watts[0] = rig.gpu(0).tape[0].watts
    for at_ns, power in zip(edges_ns.tolist(), watts.tolist(), strict=False):
        rig.set_power(0, power, rig.now_ns() + at_ns)
    edges_s = edges_ns / NS
    whole = edges_s[[0, -1]]
    return Trace(("all",), edges_s, watts, whole, np.zeros(1, np.int64), lags, whole)


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"lags": ((1.0, 0.012),)},
        {"lags": ((1.0, 0.045),)},
        {"lags": ((0.7, 0.004), (0.3, 0.06))},
        {"delay_s": 0.022},
        {"delay_s": 0.01, "lags": ((1.0, 0.02),)},
        {"average_s": 0.025},
        {"average_s": 0.1, "lags": ((1.0, 0.008),), "delay_s": 0.005},
        {"part": 0.25},
        {"part": 0.5, "delay_s": 0.01, "lags": ((1.0, 0.008),)},
        {"gain": 1.047, "offset_w": -21.6},
        {"part": 0.25, "gain": 0.95, "offset_w": 16.0},
    ],
    ids=str,
)
@in_child
def test_an_update_shows_what_its_response_makes_of_the_tape(
    tmp_path: Path, response: dict[str, Any]
) -> None:
    rig, clock, read = started(tmp_path, power_w=200.0, period_s=0.1)
    begin_ns = clock.now_ns()
    rig.set_response(0, **response)
    lags = response.pop("lags", ())
    trace = random_power(rig, 12.0, lags)
    update_s = (np.array(rig.updates(0, begin_ns + 1, begin_ns + 10 * NS)) - begin_ns) / NS
    seen = []
    for at in update_s:
        clock.sleep((begin_ns + round(at * NS) - 1 - clock.now_ns()) / NS)
        before = read()
        clock.sleep(1e-9)
        seen.append(read())
        assert seen[-1] > before
        if len(seen) > 1:
            assert before == seen[-2]  # it stands still between two updates
    exact = Counter(**response).shown(trace, update_s, 0.1)
    assert len(seen) == 99 or len(seen) == 100
    assert np.array(seen) - seen[0] == pytest.approx(exact - exact[0], abs=0.0025)


@in_child
def test_a_part_time_counter_is_the_same_however_seldom_it_is_read(tmp_path: Path) -> None:
    rig, clock, read = started(tmp_path, power_w=200.0, period_s=0.1, jitter_s=0.001)
    rig.set_period(0, 0.08, at_ns=clock.now_ns() + 3 * NS, jitter_s=0.001, skip=0.1)
    rig.set_response(0, part=0.25)
    random_power(rig, 12.0, ())
    frequent = read()
    for _ in range(900):
        clock.sleep(0.01)
        frequent, before = read(), frequent
        assert frequent >= before
    rig.gpu(0).part_from_ns -= 1  # forgets what was summed; no update lies between
    assert read() == pytest.approx(frequent, abs=0.0011)


@in_child
def test_the_lattice_wanders_smoothly(tmp_path: Path) -> None:
    rig, clock, read = started(tmp_path, power_w=1000.0, period_s=0.1)
    rig.set_response(0, wander_s=0.004)
    values = {read()}
    for _ in range(120_000):
        clock.sleep(0.001)
        values.add(read())
    instants = np.sort(np.array(list(values))) / 1000.0  # at 1000 W the value dates the update
    assert len(instants) == pytest.approx(1201, abs=2)
    line = np.polynomial.Polynomial.fit(np.arange(len(instants)), instants, 1)
    wander = instants - line(np.arange(len(instants)))
    assert wander.std() == pytest.approx(0.004, rel=0.1)
    assert np.abs(np.diff(instants) - 0.1).max() < 0.0005
    assert 10 <= np.count_nonzero(np.diff(np.sign(wander))) <= 30


@in_child
def test_a_counter_that_is_reset_counts_from_there(tmp_path: Path) -> None:
    rig, clock, read = started(tmp_path, power_w=200.0, period_s=0.1)
    rig.set_response(0, lags=((1.0, 0.02),), delay_s=0.01, offset_w=10.0)
    rig.gpu(0).reset_ns = clock.now_ns() + NS
    clock.sleep(3.05)
    assert read() == pytest.approx(210.0 * 2, abs=0.01 + 210 * 0.1)
    first = read()
    clock.sleep(1.0)
    assert read() - first == pytest.approx(210.0, abs=0.01)
