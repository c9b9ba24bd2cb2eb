"""Meters of the whole node: Cray's files, IPMI's command, Redfish on loopback."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from probe.errors import SensorUnavailable
from probe.model import RESTARTED, DeviceKind, Gap, Sample, Source
from probe.sensors import SensorContext
from probe.sensors.node import ipmi, redfish
from probe.sensors.node.ipmi import IpmiSensor
from probe.sensors.node.pm_counters import PmCountersSensor
from probe.sensors.node.redfish import RedfishSensor
from tests.fakes.controllers import DCMI, TOKEN, RedfishService, ipmitool
from tests.fakes.sysfs_meters import CrayNode
from tests.fakes.virtual_clock import VirtualClock

Readings = list[Sample | Gap]


def cray(tmp_path: Path) -> tuple[CrayNode, VirtualClock, PmCountersSensor, list[Source]]:
    node, clock = CrayNode(tmp_path), VirtualClock()
    context = SensorContext(
        sys_root=node.root, powercap_root=tmp_path / "none", proc_root=tmp_path, clock=clock
    )
    sensor = PmCountersSensor(context)
    return node, clock, sensor, list(sensor.open())


def live(
    node: CrayNode,
    clock: VirtualClock,
    sensor: PmCountersSensor,
    seconds: float,
    watts: float = 1000.0,
    each: Callable[[int], None] | None = None,
) -> Readings:
    readings: Readings = []
    for turn in range(round(seconds / 0.1)):
        if each is not None:
            each(turn)
        node.add(watts * 0.1)
        clock.sleep(0.1)
        readings += list(sensor.read())
    return readings


def counted(readings: Readings, source: str) -> float:
    """Joules of a source; what lies across a restart is not counted."""
    total, last = 0.0, None
    for reading in readings:
        if isinstance(reading, Gap):
            last = None if reading.what == source and reading.reason == RESTARTED else last
        elif reading.source == source:
            total += 0.0 if last is None else reading.value - last
            last = reading.value
    return total


def test_a_cray_node_and_its_parts(tmp_path: Path) -> None:
    node, clock, sensor, sources = cray(tmp_path)
    by_device = {source.device: source for source in sources}
    assert set(by_device) == {"node", "cpu", "ram", "accel0", "accel1"}
    assert by_device["node"].device_kind is DeviceKind.PLATFORM
    # No other meter here counts CPU and memory; the node would count them twice.
    assert {d for d, s in by_device.items() if s.in_total} == {"cpu", "ram"}
    readings = live(node, clock, sensor, 10.0)
    assert counted(readings, "pm_counters:energy") == pytest.approx(9900, abs=2)
    assert counted(readings, "pm_counters:cpu_energy") == pytest.approx(1980, abs=2)
    assert not [r for r in readings if isinstance(r, Gap)]
    assert sensor.warnings == []


def test_a_power_cap_is_named_and_counters_go_on(tmp_path: Path) -> None:
    node, clock, sensor, _ = cray(tmp_path)

    def cap(turn: int) -> None:
        node.generation += turn in (30, 31, 60)

    readings = live(node, clock, sensor, 10.0, each=cap)
    assert counted(readings, "pm_counters:energy") == pytest.approx(9900, abs=2)
    assert len(sensor.warnings) == 1 and "power cap" in sensor.warnings[0]


def test_a_controller_that_starts_again_loses_joules_and_never_makes_any(tmp_path: Path) -> None:
    node, clock, sensor, sources = cray(tmp_path)
    readings = live(node, clock, sensor, 10.0, each=lambda turn: turn == 50 and node.restart())
    for source in sources:
        gaps = [r for r in readings if isinstance(r, Gap) and r.what == source.id]
        assert [gap.reason for gap in gaps] == [RESTARTED]
    assert 9_500 < counted(readings, "pm_counters:energy") < 9_900
    # Even where it counted on past the old value, which a look at values alone would not see.
    node.joules = dict.fromkeys(node.FILES, 2_000_000.0)
    node.startup += 1
    assert counted(live(node, clock, sensor, 5.0), "pm_counters:energy") <= 4_901


def test_a_controller_that_hangs_is_a_gap_not_zero_watts(tmp_path: Path) -> None:
    node, clock, sensor, _ = cray(tmp_path)
    live(node, clock, sensor, 1.0)
    readings: Readings = []
    for _ in range(100):
        clock.sleep(0.1)
        readings += list(sensor.read())
    gaps = [r for r in readings if isinstance(r, Gap) and r.what == "pm_counters:energy"]
    assert gaps and "freshness" in gaps[0].reason
    readings = live(node, clock, sensor, 2.0)
    assert isinstance(readings[-1], Sample)


def test_without_a_cray_it_is_absent_and_a_strange_file_is_named(tmp_path: Path) -> None:
    context = SensorContext(sys_root=tmp_path)
    with pytest.raises(SensorUnavailable, match="not a node"):
        PmCountersSensor(context).open()
    node, clock = CrayNode(tmp_path), VirtualClock()
    (node.folder / "energy").write_text("17 kJ 3 us\n")
    (node.folder / "cpu_energy").write_text("nonsense\n")
    (node.folder / "memory_energy").write_text("0 J\n")
    sensor = PmCountersSensor(SensorContext(sys_root=node.root, clock=clock))
    assert {s.device for s in sensor.open()} == {"accel0", "accel1"}
    assert [a.reason[:12] for a in sensor.absent] == [
        "cpu_energy r",
        "energy is in",
        "it stands at",
    ]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> RedfishService:
    with RedfishService() as running:
        monkeypatch.setenv("PROBE_REDFISH_URL", running.url)
        monkeypatch.setenv("PROBE_REDFISH_TOKEN", TOKEN)
        monkeypatch.setattr(redfish, "LIMIT_S", 1.0)
        yield running


def test_redfish_reads_the_nodes_power(service: RedfishService) -> None:
    clock = VirtualClock()
    sensor = RedfishSensor(SensorContext(clock=clock))
    (source,) = sensor.open()
    assert (source.device, source.device_kind) == ("node", DeviceKind.PLATFORM)
    assert not source.in_total and source.resolution_s == 60.0
    service.mode = "metrics"
    (sample,) = sensor.read()
    assert sample.value == 500.0
    assert list(sensor.read()) == []  # ten seconds have not passed
    service.mode = "nonsense"
    clock.sleep(10.0)
    (gap,) = sensor.read()
    assert isinstance(gap, Gap) and "no JSON" in gap.reason
    service.mode, service.watts = "", 640.0
    clock.sleep(10.0)
    assert [r.value for r in sensor.read() if isinstance(r, Sample)] == [640.0]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("slow", "no answer"),
        ("nonsense", "no JSON"),
        ("no power", "no power"),
        ("redirect", "HTTP 302"),
    ],
)
def test_redfish_says_what_is_wrong(service: RedfishService, mode: str, reason: str) -> None:
    service.mode = mode
    began = time.monotonic()
    with pytest.raises(SensorUnavailable, match=reason) as caught:
        RedfishSensor(SensorContext()).open()
    assert TOKEN not in str(caught.value)
    if mode == "slow":
        assert time.monotonic() - began < 2.9  # it answers after 3 s


def test_redfish_needs_its_token(service: RedfishService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBE_REDFISH_TOKEN")
    with pytest.raises(SensorUnavailable, match="PROBE_REDFISH_TOKEN is missing or not accepted"):
        RedfishSensor(SensorContext()).open()
    monkeypatch.setenv("PROBE_REDFISH_URL", "https://admin:pw@bmc/redfish")
    with pytest.raises(SensorUnavailable, match="without a password") as caught:
        RedfishSensor(SensorContext()).open()
    assert "pw@" not in str(caught.value)


def test_redfish_asks_nobody_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROBE_REDFISH_URL", raising=False)
    with RedfishService() as running:
        with pytest.raises(SensorUnavailable, match="is not set"):
            RedfishSensor(SensorContext()).open()
        assert running.asked == 0


def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Path | None) -> IpmiSensor:
    (tmp_path / "dev").mkdir(exist_ok=True)
    (tmp_path / "dev/ipmi0").touch()
    monkeypatch.setenv("PATH", f"{tool}:/bin:/usr/bin" if tool else str(tmp_path / "dev"))
    return IpmiSensor(SensorContext(dev_root=tmp_path / "dev", clock=VirtualClock()))


def test_ipmi_reads_the_nodes_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = controller(tmp_path, monkeypatch, ipmitool(tmp_path / "bin"))
    (source,) = sensor.open()
    assert source.device == "node" and not source.in_total
    (sample,) = sensor.read()
    assert sample.value == 412.0


@pytest.mark.parametrize(
    ("says", "code", "reason"),
    [
        (DCMI.replace("activated", "deactivated"), 0, "deactivated"),
        ("DCMI request failed\n", 1, "DCMI request failed"),
        ("nothing\n", 0, "no power in"),
        (DCMI.replace("412", "0"), 0, "no power in"),
    ],
)
def test_ipmi_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int, reason: str
) -> None:
    sensor = controller(tmp_path, monkeypatch, ipmitool(tmp_path / "bin", says, code=code))
    with pytest.raises(SensorUnavailable, match=reason):
        sensor.open()


def test_ipmi_that_hangs_or_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipmi, "LIMIT_S", 0.2)
    sensor = controller(tmp_path, monkeypatch, ipmitool(tmp_path / "bin", wait_s=2))
    with pytest.raises(SensorUnavailable, match=r"no answer within 0\.2 s"):
        sensor.open()
    with pytest.raises(SensorUnavailable, match="not installed"):
        controller(tmp_path, monkeypatch, None).open()
    with pytest.raises(SensorUnavailable, match="/dev/ipmi0"):
        IpmiSensor(SensorContext(dev_root=tmp_path / "empty")).open()
