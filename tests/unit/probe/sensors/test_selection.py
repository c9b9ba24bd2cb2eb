"""Which devices a rank's request selects, without any driver."""

from __future__ import annotations

import pytest

from probe.model import DeviceRequest
from probe.sensors.device_selection import Identity, select

UUIDS = [f"GPU-{letter * 8}-1111" for letter in "abcd"]
FOUR = [Identity(index=i, uuid=uuid, name="H100") for i, uuid in enumerate(UUIDS)]
MIXED = [Identity(index=0, uuid=UUIDS[0], name="T4"), Identity(index=1, uuid=UUIDS[1], name="H100")]
MIG = [
    Identity(index=0, uuid=UUIDS[0], name="H100", mig_uuids=("MIG-1111", "MIG-1222")),
    Identity(index=1, uuid=UUIDS[1], name="H100"),
]


def chosen(**request: object) -> tuple[int, ...]:
    return select(FOUR, [DeviceRequest(**request)]).indices  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        (None, (0, 1, 2, 3)),
        ("", ()),
        ("-1", ()),
        ("2", (2,)),
        ("3,1", (1, 3)),
        (" 0 , 2 ", (0, 2)),
        ("0,-1,2", (0,)),  # the invalid entry hides what follows
        ("0,7,1", (0,)),
        ("x,1", ()),
        ("1,1", ()),  # a repeated entry leaves none
        ("1gpu,2", (1, 2)),  # strtoul
        ("GPU-aaaaaaaa", (0,)),
        ("GPU-b,GPU-dd", (1, 3)),
        ("GPU-b,1", (1,)),  # kinds do not mix
        ("GPU-", ()),
        ("GPU-zz,GPU-a", ()),
        ("NoDevFiles", ()),
    ],
)
def test_visible_devices_as_cuda_reads_them(visible: str | None, indices: tuple[int, ...]) -> None:
    assert chosen(visible=visible) == indices


@pytest.mark.parametrize(
    ("devices", "indices", "warned"),
    [
        ("0,1", (0, 1), False),
        ("gpu2", (2,), False),
        ("all", (0, 1, 2, 3), False),
        ("none", (), False),
        (UUIDS[3], (3,), False),
        ("GPU-c, 0", (0, 2), False),
        ("aaaaaaaa-1111", (0,), False),
        ("0,9", (0,), True),
        ("GPU-zz", (), True),
    ],
)
def test_the_users_own_list_goes_first(
    devices: str, indices: tuple[int, ...], warned: bool
) -> None:
    request = DeviceRequest(devices=devices, visible="3", local_rank=0, uuids=(UUIDS[1],))
    selection = select(FOUR, [request])
    assert selection.indices == indices
    assert bool(selection.warnings) is warned
    assert selection.rule.startswith("devices: ")


def test_an_empty_variable_is_no_list() -> None:
    assert chosen(devices="", visible="1") == (1,)


def test_initialised_devices_beat_the_local_rank() -> None:
    request = DeviceRequest(uuids=(UUIDS[2], UUIDS[0].removeprefix("GPU-")), local_rank=1)
    selection = select(FOUR, [request])
    assert selection.indices == (0, 2)
    assert selection.rule.startswith("initialised")


def test_an_unknown_initialised_device_is_named() -> None:
    selection = select(FOUR, [DeviceRequest(uuids=("GPU-ffff",), local_rank=1)])
    assert selection.indices == (1,)
    assert "GPU-ffff" in selection.warnings[0]


@pytest.mark.parametrize(
    ("visible", "rank", "indices", "warned"),
    [
        (None, 2, (2,), False),
        ("3,1", 0, (3,), False),
        ("3,1", 1, (1,), False),
        ("3", 5, (3,), False),  # the launcher gave each rank one device
        ("3,1", 5, (1, 3), True),
        ("", 0, (), False),
    ],
)
def test_local_rank(visible: str | None, rank: int, indices: tuple[int, ...], warned: bool) -> None:
    selection = select(FOUR, [DeviceRequest(visible=visible, local_rank=rank)])
    assert selection.indices == indices
    assert bool(selection.warnings) is warned


def test_ranks_add_up_and_each_device_counts_once() -> None:
    requests = [DeviceRequest(local_rank=rank % 2) for rank in range(4)]
    assert select(FOUR, requests).indices == (0, 1)


def test_no_request_means_all() -> None:
    assert select(FOUR, []).indices == (0, 1, 2, 3)


def test_different_models_warn_unless_the_order_is_by_bus() -> None:
    assert select(MIXED, [DeviceRequest(visible="0")]).warnings
    assert select(MIXED, [DeviceRequest(local_rank=1)]).warnings
    assert not select(MIXED, [DeviceRequest(visible="0", order="PCI_BUS_ID")]).warnings
    assert not select(MIXED, [DeviceRequest(visible="0,1")]).warnings  # all of them anyway
    assert not select(MIXED, [DeviceRequest(visible=UUIDS[1])]).warnings
    assert not select(MIXED, [DeviceRequest(uuids=(UUIDS[1],))]).warnings
    assert not select(FOUR, [DeviceRequest(visible="0")]).warnings


@pytest.mark.parametrize("visible", ["MIG-1111", f"MIG-{UUIDS[0]}/1/0"])
def test_mig_instances_select_their_card(visible: str) -> None:
    selection = select(MIG, [DeviceRequest(visible=visible)])
    assert selection.indices == (0,)
    assert selection.mig_uuids == (visible,)


def test_an_ambiguous_prefix_selects_nothing() -> None:
    assert select(MIG, [DeviceRequest(visible="MIG-1")]).indices == ()


def test_a_device_without_uuid_is_reached_by_index() -> None:
    devices = [Identity(index=0), Identity(index=1, uuid=UUIDS[1])]
    assert select(devices, [DeviceRequest(visible="0")]).indices == (0,)
    assert select(devices, [DeviceRequest(visible="GPU-bb")]).indices == (1,)
