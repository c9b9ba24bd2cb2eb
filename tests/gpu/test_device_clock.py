"""The contract of device clocks, on a real CUDA device."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from probe.instrument.device_clock import events
from tests.contract.test_device_clock import Bench, DeviceClockContract

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


class TestCuda(DeviceClockContract):
    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        from probe.instrument.device_clock.cuda import CudaClock

        torch.cuda.init()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        clock = CudaClock.of(torch)
        assert clock is not None
        return Bench(
            clock,
            time.monotonic_ns,
            lambda ns: torch.cuda._sleep(ns),
            torch.cuda.synchronize,
            slack_ns=events.BRACKET_NS,
        )

    def test_device_time_of_known_work(self, bench: Bench) -> None:
        """Two edges around work that a synchronize brackets on the host."""
        begin = time.monotonic_ns()
        bench.clock.mark(begin, 2)
        torch.cuda._sleep(20_000_000)
        bench.clock.mark(time.monotonic_ns(), 3)
        torch.cuda.synchronize()
        end = time.monotonic_ns()
        (_, first, _), (_, second, _) = bench.clock.drain()
        assert abs((second - first) - (end - begin)) < 300_000
