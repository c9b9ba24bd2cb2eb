"""What of a live page goes into a framework's log: what is measured or estimated, and no more."""

from __future__ import annotations

import pytest

from probe.integrations import live_numbers
from probe.integrations.live_numbers import CountOverTime, LiveNumbers
from probe.store.live import Live, LiveDevice, LivePage, LivePhase

S = 1_000_000_000


def page(joules: float, time_s: float, *, phases: tuple[LivePhase, ...] = ()) -> Live:
    """A GPU of 200 W beside a modelled CPU."""
    time_ns = round(time_s * S)
    gpu = LiveDevice("gpu0", "nvml", "measured", joules, 200.0, time_ns, "", "accelerator")
    cpu = LiveDevice("cpu", "codecarbon", "modelled", 5e6, 60.0, time_ns, "", "cpu")
    return Live((LivePage(time_ns, time_s, devices=(gpu, cpu), phases=phases),))


def test_joules_per_token_are_those_of_the_same_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is a second or two old: tokens since then are not divided by."""
    numbers = LiveNumbers()
    for tick in range(1, 101):  # 100 tokens a second at 200 W: 2 J each
        monkeypatch.setattr(live_numbers.time, "monotonic_ns", lambda tick=tick: tick * S // 10)
        numbers.count("sample", 1)
        numbers.count("token", 10)
        if tick == 40:
            first = numbers.of(page(600.0, 3.0))
    assert "phasewatt/j_per_token" not in first  # since when it was first read
    last = numbers.of(page(1670.0, 8.35))
    assert last["phasewatt/j_per_token"] == pytest.approx(2.0)
    assert "phasewatt/j_per_sample" not in last
    assert last["phasewatt/energy_j"] == 1670.0 and last["phasewatt/watts"] == 200.0


def test_nothing_without_a_meter_and_no_ratio_without_all_hosts() -> None:
    numbers = LiveNumbers()
    assert numbers.of(None) == {}
    modelled = page(1.0, 1.0).devices[1]
    assert numbers.of(Live((LivePage(0, 0.0, devices=(modelled,)),))) == {}
    numbers.count("sample", 8)
    assert set(numbers.of(page(1.0, 1e12), nodes=2)) == {"phasewatt/energy_j", "phasewatt/watts"}


def test_samples_where_tokens_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = LiveNumbers()
    for tick in range(1, 11):
        monkeypatch.setattr(live_numbers.time, "monotonic_ns", lambda tick=tick: tick * S)
        numbers.count("sample", 4)
        shown = numbers.of(page(200.0 * tick, float(tick)))
    assert shown["phasewatt/j_per_sample"] == pytest.approx(50.0)


def test_a_share_is_of_the_device_s_energy() -> None:
    """The CPU's phases are another matter."""
    phases = (
        LivePhase("forward", "gpu0", 250.0, 600.0, 580.0, 620.0, "resolved"),
        LivePhase("optimizer", "gpu0", 0.0),  # cannot be told
        LivePhase("forward", "cpu", 9.0, 9.0, 8.0, 10.0, "resolved"),
    )
    shown = LiveNumbers().of(page(2000.0, 1.0, phases=phases))
    assert {k: v for k, v in shown.items() if "share" in k} == {"phasewatt/share/forward": 0.3}


def test_a_count_between_two_steps_and_while_none_is_taken() -> None:
    counted = CountOverTime()
    assert counted.at(5 * S) is None
    counted.add(10, 2 * S)
    counted.add(30, 4 * S)
    assert counted.at(1 * S) is None  # before it began
    assert counted.at(3 * S) == pytest.approx(25.0)
    assert counted.at(60 * S) == 40.0
