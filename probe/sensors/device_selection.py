"""Which of a vendor's accelerators do these ranks use? Pure functions, no driver.

The rule: the user's ``devices``, else the CUDA devices that the rank initialised, else the
LOCAL_RANK-th of the visible ones, else all visible. CUDA's part of a request
(CUDA_VISIBLE_DEVICES and initialised devices) applies to NVIDIA's devices and to those of an
unknown vendor; of any other vendor's devices all are visible. What CUDA makes of
CUDA_VISIBLE_DEVICES is repeated here as CUDA does it: the first invalid entry ends the list, a
repeated entry empties it, a UUID may be a unique prefix.

CUDA numbers devices fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID; NVML always
numbers by bus. The two agree where all GPUs are the same model. Elsewhere only UUIDs
are safe, and a number that was used all the same is named in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..model import DeviceRequest

_CUDA_VENDORS = ("", "nvidia")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What selection knows of a device. ``uuid`` may be empty where the driver refused it."""

    index: int
    uuid: str = ""
    name: str = ""
    mig_uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The chosen indices of the driver, ascending; why; and what the user should know."""

    indices: tuple[int, ...]
    rule: str
    warnings: tuple[str, ...] = ()
    mig_uuids: tuple[str, ...] = ()  # the instances asked for, where they were named


@dataclass(slots=True)
class _Draft:
    """What one request selects, in the rank's own order."""

    indices: list[int] = field(default_factory=list)
    migs: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rule: str = ""


def numbered(uuids: Mapping[int, str]) -> list[Identity]:
    """A vendor's devices by number, of which only some are known: the others keep their places."""
    return [Identity(index=i, uuid=uuids.get(i, "")) for i in range(max(uuids, default=-1) + 1)]


def select(
    devices: Sequence[Identity], requests: Iterable[DeviceRequest], vendor: str = "nvidia"
) -> Selection:
    """The union of what the ranks use of a vendor's devices. Without a request: all devices.

    Args:
        devices: all devices of the vendor on this host, in the driver's order.
    """
    asked = list(requests) or [DeviceRequest()]
    if vendor not in _CUDA_VENDORS:
        asked = [replace(request, visible=None, uuids=()) for request in asked]
    drafts = [_select_one(devices, request) for request in asked]
    return Selection(
        indices=tuple(sorted({index for draft in drafts for index in draft.indices})),
        rule="; ".join(dict.fromkeys(draft.rule for draft in drafts)),
        warnings=tuple(dict.fromkeys(line for draft in drafts for line in draft.warnings)),
        mig_uuids=tuple(dict.fromkeys(uuid for draft in drafts for uuid in draft.migs)),
    )


def _select_one(devices: Sequence[Identity], request: DeviceRequest) -> _Draft:
    draft = _Draft()
    if request.devices is not None and request.devices.strip():
        _by_user(devices, request.devices, draft)
        return draft
    if request.uuids:
        for uuid in request.uuids:
            if not _add_uuid(devices, uuid, draft):
                draft.warnings.append(f"the rank uses device {uuid}, which NVML does not know")
        if draft.indices:
            draft.rule = "initialised: the CUDA devices that the rank initialised"
            return draft
    visible = _visible(devices, request, draft)
    rank = request.local_rank
    if rank is None or len(visible) <= 1:
        chosen, draft.rule = visible, _visible_rule(request)
    elif 0 <= rank < len(visible):
        chosen = [visible[rank]]
        draft.rule = "local_rank: the LOCAL_RANK-th of the visible devices"
        _warn_of_order(devices, request, draft)
    else:
        chosen, draft.rule = visible, _visible_rule(request)
        draft.warnings.append(
            f"LOCAL_RANK {rank} has no device of its own among {len(visible)} visible ones; "
            "all visible devices are measured"
        )
    for index, mig in chosen:
        draft.indices.append(index)
        if mig:
            draft.migs.append(mig)
    return draft


# -- the user's own list ---------------------------------------------------------


def _by_user(devices: Sequence[Identity], text: str, draft: _Draft) -> None:
    """``0,1`` are NVML indices as in nvidia-smi (``gpu0`` too); UUIDs may be unique prefixes."""
    draft.rule = f"devices: {text.strip()}"
    if text.strip().lower() in ("all", "none"):
        if text.strip().lower() == "all":
            draft.indices.extend(device.index for device in devices)
        return
    indices = {device.index for device in devices}
    for entry in (part.strip() for part in text.split(",")):
        number = re.fullmatch(r"(?:gpu)?(\d+)", entry, flags=re.IGNORECASE)
        if number and int(number[1]) in indices:
            draft.indices.append(int(number[1]))
        elif entry and (number or not _add_uuid(devices, entry, draft)):
            choice = ", ".join(f"{d.index}" for d in devices) or "none"
            draft.warnings.append(
                f"devices={text.strip()}: no GPU {entry} here (there are: {choice})"
            )


# -- CUDA_VISIBLE_DEVICES ---------------------------------------------------------

_Chosen = tuple[int, str]  # NVML index, UUID of the MIG instance or ""


def _visible(devices: Sequence[Identity], request: DeviceRequest, draft: _Draft) -> list[_Chosen]:
    """The devices in the order in which CUDA numbers them."""
    if request.visible is None:
        return [(device.index, "") for device in devices]
    text = request.visible.strip()
    if text.startswith(("GPU-", "MIG-")):
        return _sequence(text, lambda entry: _visible_uuid(devices, entry, text[:4]))
    chosen = _sequence(text, lambda entry: _visible_number(devices, entry))
    if chosen and len(chosen) < len(devices):
        _warn_of_order(devices, request, draft)
    return chosen


def _sequence(text: str, resolve: Callable[[str], _Chosen | None]) -> list[_Chosen]:
    chosen: list[_Chosen] = []
    for entry in text.split(","):
        device = resolve(entry.strip())
        if device is None:
            break  # CUDA: the first invalid entry hides itself and all that follow
        if device in chosen:
            return []  # CUDA: a repeated entry leaves no device
        chosen.append(device)
    return chosen


def _visible_number(devices: Sequence[Identity], entry: str) -> _Chosen | None:
    digits = re.match(r"\+?(\d+)", entry)  # strtoul: "1gpu" is 1, "-1" and "x" are invalid
    if digits is None or int(digits[1]) >= len(devices):
        return None
    return devices[int(digits[1])].index, ""


def _visible_uuid(devices: Sequence[Identity], entry: str, prefix: str) -> _Chosen | None:
    return _find(devices, entry) if entry.startswith(prefix) else None


def _visible_rule(request: DeviceRequest) -> str:
    if request.visible is None:
        return "all: every device, CUDA_VISIBLE_DEVICES is not set"
    return "visible: the devices in CUDA_VISIBLE_DEVICES"


# -- UUIDs -------------------------------------------------------------------------


def _find(devices: Sequence[Identity], text: str) -> _Chosen | None:
    """The one device whose UUID begins with ``text``; None where none or several do."""
    if text.startswith("MIG-GPU-"):  # the older form MIG-GPU-<uuid>/<instance>/<compute instance>
        parent = _find(devices, text[4:].split("/")[0])
        return None if parent is None else (parent[0], text)
    matches: set[_Chosen] = set()
    for device in devices:
        if device.uuid and device.uuid.startswith(text):
            matches.add((device.index, ""))
        matches.update((device.index, uuid) for uuid in device.mig_uuids if uuid.startswith(text))
    exact = {choice for choice in matches if text in (choice[1], _uuid_of(devices, choice))}
    matches = exact or matches
    return matches.pop() if len(matches) == 1 and len(text) > len("GPU-") else None


def _uuid_of(devices: Sequence[Identity], chosen: _Chosen) -> str:
    if chosen[1]:
        return chosen[1]
    return next(device.uuid for device in devices if device.index == chosen[0])


def _add_uuid(devices: Sequence[Identity], uuid: str, draft: _Draft) -> bool:
    """Take the device of ``uuid``; frameworks leave out the ``GPU-`` or ``MIG-`` in front."""
    prefixes = ("",) if uuid.startswith(("GPU-", "MIG-")) else ("", "GPU-", "MIG-")
    for spelling in (prefix + uuid for prefix in prefixes):
        match = _find(devices, spelling)
        if match is not None:
            index, mig = match
            draft.indices.append(index)
            if mig:
                draft.migs.append(mig)
            return True
    return False


def _warn_of_order(devices: Sequence[Identity], request: DeviceRequest, draft: _Draft) -> None:
    names = {device.name for device in devices}
    if len(names) > 1 and (request.order or "").strip().upper() != "PCI_BUS_ID":
        draft.warnings.append(
            "GPUs of different models: CUDA numbers them fastest first, NVML by bus, so the "
            "measured GPU may be another one; set CUDA_DEVICE_ORDER=PCI_BUS_ID or devices="
        )
