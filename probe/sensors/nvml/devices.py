"""The GPUs that the job uses: their number, their kind, and whether others share them.

Everything but the device count and the handles is optional: a call that fails is a reason,
never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import SensorUnavailable
from ...model import Absence, DeviceKind, DeviceRequest, Kind, Provenance, Source
from ...simulated_card import is_simulated
from ...units import NS_PER_S
from ..device_selection import Identity, Selection, select
from .session import Failed, Session, attempt, unavailable

VENDOR = "nvidia"
AMPERE = 7
_GA100 = {"A100", "A800", "A30", "170HX"}  # Ampere, but their power reading is instant
_VGPU_MODES = {2: "vGPU guest", 3: "vGPU host"}  # NVML_GPU_VIRTUALIZATION_MODE_*
_RENEW_NS = 9 * NS_PER_S // 10  # a try once a second may come a little early
MIG_NOTE = "power is that of the whole card, shared by MIG instances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A selected GPU."""

    index: int
    handle: Any  # at the start; :class:`DeviceHandle` renews it
    uuid: str = ""
    name: str = ""
    architecture: int | None = None  # NVML_DEVICE_ARCH_*
    mig: bool = False
    mig_uuids: tuple[str, ...] = ()  # instances that the job named; empty: unknown
    shared: str = ""  # why its power is not the job's alone; empty: it is

    def source(
        self, quantity: str, unit: str, scale: float, *, kind: Kind = Kind.GAUGE, **more: Any
    ) -> Source:
        """A measured source of this device; ``more`` are further fields of it."""
        source = Source(
            id=f"nvml:{self.uuid or f'index-{self.index}'}:{quantity}",
            device=f"gpu{self.index}",
            device_kind=DeviceKind.ACCELERATOR,
            vendor=VENDOR,
            index=self.index,
            uuid=self.uuid,
            quantity=quantity,
            unit=unit,
            scale=scale,
            kind=kind,
            provenance=Provenance.MEASURED,
            attributable=not self.shared,
            simulated=is_simulated(self.uuid),
        )
        return replace(source, **more)

    @property
    def scope_note(self) -> str:
        """What the readings cover beyond the GPU."""
        return "whole module, CPU included" if "GH200" in self.name else ""

    @property
    def usage_is_average(self) -> bool | None:
        """Does nvmlDeviceGetPowerUsage mean the last second? None: unknown architecture."""
        if self.architecture is None:
            return None
        if self.architecture == AMPERE and _GA100 & set(re.split(r"\W+", self.name)):
            return False
        return self.architecture >= AMPERE


class DeviceHandle:
    """NVML's handle of one device, renewed when a lost device is asked again."""

    def __init__(self, session: Session, device: Device) -> None:
        self._session, self.index = session, device.index
        self._renewed_ns = 0
        self.value: Any = device.handle

    def renew(self, why: Failed, now_ns: int) -> None:
        """Once a second at most, whichever meter found the device lost."""
        if now_ns - self._renewed_ns < _RENEW_NS:
            return
        self._renewed_ns = now_ns
        if why.code == 1:
            self._session.revive()
        handle = self._session.fetch_handle(self.index)
        if not isinstance(handle, Failed):
            self.value = handle


def open_devices(
    requests: Sequence[DeviceRequest], absent: list[Absence], warnings: list[str]
) -> tuple[Session, list[Device], str]:
    """A session, the selected devices, and the rule that selected them.

    Raises:
        SensorUnavailable: no NVML, or none of the devices is selected and answers.
    """
    session = Session.open()
    try:
        identities, handles, silent = _identify(session)
        selection = select(identities, requests, VENDOR)
        warnings.extend(selection.warnings)
        chosen = [i for i in identities if i.index in selection.indices]
        absent.extend(a for a in silent if any(a.what == f"GPU {i.index}" for i in chosen))
        devices = [
            _describe(session, identity, handles[identity.index], selection)
            for identity in chosen
            if identity.index in handles
        ]
        if not devices:
            reason = absent[0].reason if absent else f"no GPU is selected ({selection.rule})"
            raise SensorUnavailable(reason, absent[0].remedy if absent else None)
    except BaseException:
        session.close()
        raise
    return session, devices, selection.rule


def _identify(session: Session) -> tuple[list[Identity], dict[int, Any], list[Absence]]:
    """All devices of the machine, their handles, and those that do not answer.

    Raises:
        SensorUnavailable: the count fails or is zero.
    """
    count = attempt(session.nvml.nvmlDeviceGetCount)
    if isinstance(count, Failed):
        raise unavailable(count)
    if not count:
        raise SensorUnavailable("the NVIDIA driver shows no GPU here", None)
    identities: list[Identity] = []
    handles: dict[int, Any] = {}
    absent: list[Absence] = []
    for index in range(count):
        handle = session.fetch_handle(index)
        if isinstance(handle, Failed):
            remedy = "nvidia-smi --gpu-reset (or reboot)" if handle.lost else None
            what = f"GPU {index}"
            absent.append(Absence(sensor="nvml", what=what, reason=handle.reason, remedy=remedy))
            # It still counts for CUDA's numbering; only it is never read.
            identities.append(Identity(index=index))
            continue
        handles[index] = handle
        identities.append(
            Identity(
                index=index,
                uuid=_text(session, "nvmlDeviceGetUUID", handle),
                name=_text(session, "nvmlDeviceGetName", handle),
                mig_uuids=_mig_uuids(session, handle),
            )
        )
    return identities, handles, absent


def _describe(session: Session, identity: Identity, handle: Any, selection: Selection) -> Device:
    """Architecture, MIG and virtualisation of one device; each call is optional."""
    nvml = session.nvml
    architecture = attempt(lambda: nvml.nvmlDeviceGetArchitecture(handle))
    mode = attempt(lambda: nvml.nvmlDeviceGetVirtualizationMode(handle))
    mig = bool(identity.mig_uuids) or _mig_enabled(session, handle)
    shared = MIG_NOTE if mig else ""
    if not mig and isinstance(mode, int) and mode in _VGPU_MODES:
        shared = f"power is that of the whole card, shared with others ({_VGPU_MODES[mode]})"
    if not isinstance(architecture, int) or architecture >= 0xFFFF:
        architecture = None
    return Device(
        index=identity.index,
        handle=handle,
        uuid=identity.uuid,
        name=identity.name,
        architecture=architecture,
        mig=mig,
        mig_uuids=tuple(u for u in identity.mig_uuids if u in selection.mig_uuids),
        shared=shared,
    )


def _text(session: Session, function: str, handle: Any) -> str:
    value = attempt(lambda: getattr(session.nvml, function)(handle))
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return value if isinstance(value, str) else ""


def _mig_enabled(session: Session, handle: Any) -> bool:
    mode = attempt(lambda: session.nvml.nvmlDeviceGetMigMode(handle))
    return not isinstance(mode, Failed) and bool(mode[0])


def _mig_uuids(session: Session, handle: Any) -> tuple[str, ...]:
    if not _mig_enabled(session, handle):
        return ()
    nvml = session.nvml
    limit = attempt(lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    uuids: list[str] = []
    for index in range(limit if isinstance(limit, int) else 0):
        mig = attempt(lambda i=index: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, i))  # type: ignore[misc]
        if not isinstance(mig, Failed):
            uuids.append(_text(session, "nvmlDeviceGetUUID", mig))
    return tuple(uuid for uuid in uuids if uuid)
