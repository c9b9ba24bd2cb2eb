"""What is asked of a DDP module, how often, and what is timed beside it."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from probe.instrument import ddp_timers  # noqa: E402
from probe.instrument.ddp_timers import ADDINGS, BETWEEN, DdpTimers, adding_ns  # noqa: E402
from probe.ring.layout import REDUCTIONS_WARM_UP, CommCode, Record  # noqa: E402


class Ring:
    def __init__(self) -> None:
        self.adding_once: list[tuple[int, int, int]] = []

    def write(self, kind: int, code: int, payload: int) -> None:
        self.adding_once.append((kind, code, payload))

    def number(self, code: CommCode) -> int:
        return sum(kind == Record.COMM and comm == code for kind, comm, _ in self.adding_once)


class Ddp(nn.Module):
    """As DDP tells: iteration so and so, 9 ms of collectives of which 7 beside computing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1000))
        self.iteration, self.asked, self.rate = 0, 0, 0
        self.waits_s = self.computes_s = 0.0

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        self.rate = rate

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        self.asked += 1
        time.sleep(self.waits_s)
        end = time.thread_time() + self.computes_s
        while time.thread_time() < end:
            pass
        return {
            "iteration": self.iteration,
            "backward_comm_time": 9_000_000,
            "backward_compute_comm_overlap_time": 7_000_000,
        }


def steps(ring: Ring, ddp: Ddp, number: int, micros: int) -> None:
    timers = DdpTimers(ring)  # type: ignore[arg-type]
    timers.follow(ddp)
    for _ in range(number):
        ddp.iteration += 1
        timers.poll(micros)


@pytest.fixture
def unspared(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARED", "SPARED_FIRST"):
        monkeypatch.setattr(ddp_timers, name, 0)


@pytest.mark.usefixtures("unspared")
def test_timers_after_the_warm_up() -> None:
    ring, ddp = Ring(), Ddp()
    steps(ring, ddp, 20, 1)
    assert ddp.rate > 1
    assert ring.number(CommCode.BUSY) == ring.number(CommCode.EXPOSED) == 20 - REDUCTIONS_WARM_UP
    assert {
        payload
        for kind, code, payload in ring.adding_once
        if (kind, code) == (Record.COMM, CommCode.EXPOSED)
    } == {2_000_000}


@pytest.mark.usefixtures("unspared")
@pytest.mark.parametrize(("micros", "added"), [(1, False), (2, True), (3, False)])
def test_adding_is_timed_where_nothing_else_tells_it(micros: int, added: bool) -> None:
    ring, ddp = Ring(), Ddp()
    steps(ring, ddp, REDUCTIONS_WARM_UP + BETWEEN * ADDINGS + 10, micros)
    assert ring.number(CommCode.ADDING) == (ADDINGS if added else 0)


def test_asking_is_spared() -> None:
    ring, ddp = Ring(), Ddp()
    ddp.computes_s = 0.002
    steps(ring, ddp, 200, 1)
    # The steps are over before it is due again.
    assert ddp.asked == REDUCTIONS_WARM_UP + 1
    assert ring.number(CommCode.BUSY) == 1


def test_asking_is_spared_where_nothing_is_reduced() -> None:
    ring, ddp = Ring(), Ddp()
    ddp.computes_s = 0.002
    timers = DdpTimers(ring)  # type: ignore[arg-type]
    timers.follow(ddp)
    for _ in range(200):
        timers.poll(1)
    assert ddp.asked == ddp_timers.WARMING + 1


def test_who_was_kept_waiting_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddp_timers, "SPARED_FIRST", 1)  # waiting itself takes some time
    ring, ddp = Ring(), Ddp()
    ddp.waits_s = 0.02
    steps(ring, ddp, 10, 1)
    assert ddp.asked == 10


def test_a_device_with_a_clock_of_its_own_is_left_alone() -> None:
    ring, ddp = Ring(), Ddp()
    ddp.weight = nn.Parameter(torch.ones(3, device="meta"))
    steps(ring, ddp, 20, 1)
    assert (ddp.asked, ddp.rate) == (0, 0)


@pytest.mark.usefixtures("unspared")
def test_no_memory_for_it_ends_the_timing_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refused(_module: Any) -> int:
        tried.append(1)
        raise MemoryError

    monkeypatch.setattr(ddp_timers, "adding_ns", refused)
    ring, ddp = Ring(), Ddp()
    steps(ring, ddp, 30, 2)
    assert len(tried) == 1 and ring.number(CommCode.ADDING) == 0
    assert ring.number(CommCode.BUSY) == 30 - REDUCTIONS_WARM_UP


def test_what_does_not_fit_is_scaled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding takes 150 ns longer than making, of all gradients or of the first half of them."""
    model = nn.ModuleList([nn.Linear(70, 70, bias=False) for _ in range(16)])
    before = [p.detach().clone() for p in model.parameters()]
    made: list[int] = []
    ones_like = torch.ones_like
    monkeypatch.setattr(torch, "ones_like", lambda tensor: made.append(1) or ones_like(tensor))

    def adding_once() -> int:
        made.clear()
        times = iter((1000, 1100, 1350))
        monkeypatch.setattr(ddp_timers.time, "perf_counter_ns", lambda: next(times))
        return adding_ns(model)

    assert adding_once() == 150 and len(made) == 2 * 16
    monkeypatch.setattr(ddp_timers, "ADDED_BYTES", 8 * 4 * 70 * 70)
    assert adding_once() == 300 and len(made) == 2 * 8
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
