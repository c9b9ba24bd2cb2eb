"""The live page: what meters add up to, and that trouble with it is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe.clock import MACHINE_CLOCK
from probe.model import DISTRUSTED, RESTARTED, Gap, Kind, Provenance, Sample, Source
from probe.recorder.live.meters import LiveMeters
from probe.recorder.live.page import LivePageStage
from probe.store.layout import node_dir
from probe.store.live import read_live


def counter(id_: str = "c", **values: object) -> Source:
    given = {
        "id": id_,
        "device": "gpu0",
        "quantity": "energy",
        "unit": "J",
        "uuid": "u",
        "kind": Kind.COUNTER,
        "provenance": Provenance.MEASURED,
        "scale": 1e-3,
        "in_total": True,
    }
    return Source(**(given | values))  # type: ignore[arg-type]


def power(id_: str, quantity: str, **values: object) -> Source:
    return counter(
        id_, quantity=quantity, unit="W", kind=Kind.GAUGE, scale=1.0, in_total=False, **values
    )


def fed(*sources: Source, readings: list[Sample | Gap]) -> LiveMeters:
    meters = LiveMeters()
    meters.open(sources)
    meters.take(readings)
    return meters


def ticks(source: str, watts: float, begin: int, end: int, at: int = 0) -> list[Sample]:
    """A counter in mJ, read ten times a second."""
    return [Sample(source, at + i * 100_000_000, 5e6 + watts * 100 * i) for i in range(begin, end)]


def test_joules_since_the_first_reading_and_watts_lately() -> None:
    (page,) = fed(counter(), readings=[*ticks("c", 300.0, 0, 101)]).page(10_000_000_000)
    assert page.energy_j == pytest.approx(3000.0)
    assert page.power_w == pytest.approx(300.0)
    (late,) = fed(counter(), readings=[*ticks("c", 300.0, 0, 101)]).page(20_000_000_000)
    assert late.power_w is None and late.energy_j == pytest.approx(3000.0)


def test_a_reset_a_wrap_and_a_restart_add_nothing_false() -> None:
    readings: list[Sample | Gap] = [
        Sample("c", 1, 1000.0),
        Sample("c", 2, 3000.0),
        Sample("c", 3, 500.0),
        Sample("c", 4, 1500.0),
    ]
    assert fed(counter(), readings=readings).page(5)[0].energy_j == pytest.approx(3.0)
    assert fed(counter(wrap_raw=4000.0), readings=readings).page(5)[0].energy_j == pytest.approx(
        2.0 + 1.5 + 1.0
    )
    readings[2:2] = [Gap("c", 2, 3, RESTARTED)]
    assert fed(counter(wrap_raw=4000.0), readings=readings).page(5)[0].energy_j == pytest.approx(
        3.0
    )


def test_a_distrusted_counter_gives_way_to_sampled_power() -> None:
    watts = [Sample("p", i * 100_000_000, 250.0) for i in range(51)]
    meters = fed(
        counter(),
        power("p", "power"),
        readings=[*ticks("c", 40.0, 0, 51), *watts, Gap("c", 0, 1, f"{DISTRUSTED}: much")],
    )
    (page,) = meters.page(5_000_000_000)
    assert page.source == "p" and page.energy_j == pytest.approx(1250.0)
    assert page.power_w == pytest.approx(250.0)


def test_trouble_with_the_page_is_told_once_and_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node_dir(tmp_path).mkdir()
    publisher = LivePageStage(tmp_path, 0, MACHINE_CLOCK)
    publisher.open([counter()])
    publisher.readings(ticks("c", 300.0, 0, 20))
    publisher.publish(2_000_000_000, [], {}, [])
    live = read_live(tmp_path)
    assert live is not None and live.energy_j() == pytest.approx(570.0)
    publisher.readings([Sample("c", 1, "no number")])  # type: ignore[arg-type]
    publisher.readings(ticks("c", 300.0, 20, 40))
    publisher.publish(4_000_000_000, [], {}, [])
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and "the live page is not written" in stderr
    again = read_live(tmp_path)
    assert again is not None and again.energy_j() == pytest.approx(570.0)


def test_a_disk_that_refuses_is_the_recorders_to_tell(tmp_path: Path) -> None:
    publisher = LivePageStage(tmp_path / "gone", 0, MACHINE_CLOCK)
    with pytest.raises(OSError):
        publisher.publish(1, [], {}, [])


def test_a_page_of_another_version_or_of_the_past_is_none(tmp_path: Path) -> None:
    node = node_dir(tmp_path)
    node.mkdir()
    for text in ("{}", "[]", '{"schema": 99}', '{"schema": 1, "colour": 2}', "torn"):
        (node / "live.json").write_text(text)
        assert read_live(tmp_path) is None
