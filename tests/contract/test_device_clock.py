"""What every device clock must do; the CUDA clock runs the same suite in tests/gpu."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from probe.instrument.device_clock import events
from probe.instrument.device_clock.events import EventClock
from tests.fakes.device_clocks import HostClock, SimulatedDevice, SimulatedTime


@dataclass
class Bench:
    """A clock and the device under it."""

    clock: Any
    now: Callable[[], int]
    work: Callable[[int], None]  # keep the device busy for about so many ns
    wait: Callable[[], None]  # until the device is idle
    capture: Callable[[bool], None] | None = None
    slack_ns: int = 0  # how far a device time may lie before its edge


def host() -> Bench:
    return Bench(HostClock(), time.monotonic_ns, lambda _ns: None, lambda: None)


def simulated(**options: Any) -> Callable[[], Bench]:
    def make() -> Bench:
        shared = SimulatedTime()
        device = SimulatedDevice(shared, **options)
        clock = EventClock(device, now=shared.now_ns)
        return Bench(
            clock,
            shared.now_ns,
            device.launch,
            device.synchronize,
            device.capture,
            slack_ns=events.BRACKET_NS,
        )

    return make


class DeviceClockContract:
    """Inherit and give a ``bench`` fixture."""

    def test_every_edge_comes_back_once_in_order(self, bench: Bench) -> None:
        sent = []
        for step in range(300):
            for code in (2, 3, 6):
                bench.work(200_000)
                edge = bench.now()
                bench.clock.mark(edge, code)
                sent.append((edge, code))
            if step % 50 == 49:
                bench.wait()
        bench.wait()
        got = list(bench.clock.drain())
        assert [(edge, code) for edge, _, code in got] == sent
        reached = [device for _, device, _ in got]
        assert (
            reached == sorted(reached)
            or max(a - b for a, b in itertools.pairwise(reached)) <= bench.slack_ns
        )
        assert bench.clock.dropped == 0
        assert list(bench.clock.drain()) == []

    def test_the_device_is_never_ahead_of_the_host(self, bench: Bench) -> None:
        for _ in range(100):
            bench.work(300_000)
            bench.clock.mark(bench.now(), 2)
        bench.wait()
        end = bench.now()
        for edge, device, _ in bench.clock.drain():
            assert edge - bench.slack_ns <= device <= end + bench.slack_ns

    def test_memory_is_bounded_and_drops_are_counted(self, bench: Bench) -> None:
        for _ in range(3 * events.POOL):
            bench.clock.mark(bench.now(), 2)
        bench.wait()
        got = len(list(bench.clock.drain()))
        assert got + bench.clock.dropped == 3 * events.POOL
        assert got == events.POOL
        bench.clock.mark(bench.now(), 3)
        bench.wait()
        assert [code for _, _, code in bench.clock.drain()] == [3]

    def test_nothing_enters_a_captured_graph(self, bench: Bench) -> None:
        if bench.capture is None:
            pytest.skip("this clock knows no capture")
        bench.capture(True)
        bench.clock.mark(bench.now(), 2)
        assert list(bench.clock.drain()) == []
        bench.capture(False)
        assert bench.clock.dropped == 1


VARIANTS = {
    "host": host,
    "simulated": simulated(),
    "shallow-queue": simulated(depth=2),
    "drifting": simulated(drift=2e-5, offset_ns=-7e12),
    "slow-anchor": simulated(idle_latency_ns=40_000),
}


class TestClocks(DeviceClockContract):
    @pytest.fixture(params=VARIANTS)
    def bench(self, request: pytest.FixtureRequest) -> Iterator[Bench]:
        return VARIANTS[request.param]()


@pytest.mark.parametrize("drift", [0.0, 2e-5, -2e-5])
def test_device_times_are_exact_over_minutes(drift: float) -> None:
    """Anchors every few seconds keep drift and the float32 of elapsed_time small."""
    shared = SimulatedTime()
    device = SimulatedDevice(shared, drift=drift, offset_ns=3e14)
    clock = EventClock(device, now=shared.now_ns)
    worst = 0.0
    truth = {}
    record = device.record

    def recorded(event: Any) -> None:
        record(event)
        truth[edge] = event.at_ns

    device.record = recorded  # type: ignore[method-assign]
    for _ in range(12_000):
        device.launch(9_000_000)
        edge = shared.now_ns()
        clock.mark(edge, 2)
        shared.advance(10_000_000)
        for sent, reached, _ in clock.drain():
            worst = max(worst, abs(reached - truth.pop(sent)))
    assert shared.peek_ns > 120e9
    # half the bracket, float32 at 5 s, drift over one anchor period
    assert worst < 5_000 + 1_000 + abs(drift) * 1.2 * events.ANCHOR_EVERY_NS


def test_an_anchor_on_a_busy_device_is_refused_and_tried_again() -> None:
    shared = SimulatedTime()
    device = SimulatedDevice(shared, idle_latency_ns=80_000)
    clock = EventClock(device, now=shared.now_ns)
    assert clock.anchor is None
    clock.mark(shared.now_ns(), 2)
    assert clock.dropped == 1
    device._idle_latency_ns = 2_000
    clock.drain()
    assert clock.anchor is None, "not before it is time to try again"
    shared.advance(events.RETRY_NS)
    clock.drain()
    assert clock.anchor is not None and clock.anchor.bracket_ns <= events.BRACKET_NS


def test_a_refused_anchor_keeps_the_one_before() -> None:
    shared = SimulatedTime()
    device = SimulatedDevice(shared)
    clock = EventClock(device, now=shared.now_ns)
    first = clock.anchor
    device._idle_latency_ns = 10_000_000
    shared.advance(events.ANCHOR_EVERY_NS)
    spent = shared.peek_ns
    clock.drain()
    assert clock.anchor is first
    assert shared.peek_ns - spent < 4 * events.POLL_NS  # it gave up


def test_marking_never_waits_for_the_device() -> None:
    shared = SimulatedTime()
    device = SimulatedDevice(shared)
    clock = EventClock(device, now=shared.now_ns)
    device.launch(10_000_000_000)
    begin = shared.peek_ns
    for _ in range(100):
        clock.mark(shared.now_ns(), 2)
    assert clock.drain() == []
    assert shared.peek_ns - begin < 1_000_000


def test_several_devices_and_threads_keep_apart() -> None:
    shared = SimulatedTime()
    devices = [SimulatedDevice(shared, drift=d * 1e-5) for d in (-1, 0, 1)]
    results: dict[int, list[Any]] = {}

    def rank(i: int) -> None:
        clock = EventClock(devices[i], now=shared.now_ns)
        for _ in range(200):
            devices[i].launch(10_000)
            clock.mark(shared.now_ns(), i)
        devices[i].synchronize()
        results[i] = clock.drain()

    threads = [threading.Thread(target=rank, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(3):
        assert [code for _, _, code in results[i]] == [i] * 200
