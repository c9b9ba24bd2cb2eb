"""Whose phases a device's energy belongs to, by what is known of the devices."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from probe.analysis.device_owner import owner, ranks_of
from probe.model import DeviceKind, DeviceRequest, Kind, Provenance, Source, device_kind
from probe.store.files import write_json
from probe.store.members import Member
from probe.store.node_files import read_sources
from tests.fakes.stored_run import energy_source

NEW_FIELDS = ("device_kind", "vendor", "index")


def npu(number: int, **more: Any) -> Source:
    values: dict[str, Any] = {
        "id": f"acme:{number}",
        "device": f"npu{number}",
        "device_kind": DeviceKind.ACCELERATOR,
        "vendor": "acme",
        "quantity": "energy",
        "unit": "J",
        "kind": Kind.COUNTER,
        "provenance": Provenance.MEASURED,
    }
    return Source(**values | more)


def member(rank: int, **request: Any) -> Member:
    return Member(
        role="rank",
        rank=rank,
        local_rank=rank,
        local_world_size=2,
        world_size=2,
        host="h",
        boot_id="b",
        pid=rank + 1,
        start_ticks=0,
        begin_ns=0,
        rings="",
        prefix="",
        request=DeviceRequest(**request),
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gpu0", DeviceKind.ACCELERATOR),
        ("node-7/gpu12", DeviceKind.ACCELERATOR),
        ("cpu0-die1", DeviceKind.CPU),
        ("cpu", DeviceKind.CPU),
        ("dram0", DeviceKind.DRAM),
        ("ram", DeviceKind.DRAM),
        ("psys", DeviceKind.PLATFORM),
        ("host", DeviceKind.HOST),
        ("process", DeviceKind.PROCESS),
        ("core0", DeviceKind.OTHER),
        ("npu0", DeviceKind.OTHER),
    ],
)
def test_a_name_says_the_kind_where_none_was_stored(name: str, kind: DeviceKind) -> None:
    assert device_kind(name) is kind
    assert device_kind(name, "accelerator") is DeviceKind.ACCELERATOR


def test_sources_recorded_without_a_kind_read_as_those_with_one(tmp_path: Path) -> None:
    stored = json.loads(json.dumps(dataclasses.asdict(energy_source(3))))
    assert stored["device_kind"] == "accelerator"
    for name in NEW_FIELDS:
        del stored[name]
    write_json(tmp_path / "sources.json", [stored])
    (read,) = read_sources(tmp_path)
    assert read == energy_source(3)
    assert (read.is_accelerator, read.index) == (True, 3)


def test_a_stored_kind_comes_back(tmp_path: Path) -> None:
    write_json(tmp_path / "sources.json", [dataclasses.asdict(npu(1))])
    assert read_sources(tmp_path) == [npu(1)]


def test_each_rank_owns_the_device_that_it_selected() -> None:
    cards = [energy_source(i) for i in (0, 1)]
    members = [member(i, uuids=(f"GPU-{i}",), visible="0,1") for i in (0, 1)]
    assert [owner(card, cards, members, [0, 1]) for card in cards] == [0, 1]


def test_a_device_that_was_not_recorded_keeps_its_number() -> None:
    card = energy_source(2)
    members = [member(0, visible="1,2", local_rank=1)]
    assert ranks_of(card, [card], members) == {0}


def test_another_vendors_devices_do_not_follow_cudas_variables() -> None:
    both = [energy_source(0), energy_source(1), npu(0), npu(1)]
    members = [member(i, uuids=("GPU-0",), visible="0", local_rank=i) for i in (0, 1)]
    assert [ranks_of(source, both, members) for source in both] == [{0, 1}, set(), {0}, {1}]


def test_the_users_own_list_holds_for_every_vendor() -> None:
    both = [npu(0, uuid="NPU-a"), npu(1, uuid="NPU-b")]
    assert ranks_of(both[1], both, [member(0, devices="NPU-b")]) == {0}
    assert ranks_of(both[0], both, [member(0, devices="NPU-b")]) == set()
