"""The card that is asked: a CUDA device, or the tests' stand-in of one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probe.calibrate.wave import CudaMatmul
from probe.errors import NothingToReport

if TYPE_CHECKING:
    from tests.fakes.nvml import NvmlRig

Load = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Card:
    """A card and work for it; each load keeps it busy for so many seconds and then returns.

    ``number`` is how many cards the machine has; ``forward`` runs a model so many times;
    ``device`` is where torch trains.
    """

    name: str
    uuid: str
    number: int
    loads: dict[str, Load]
    forward: Callable[[int], None]
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Busy:
    """A load in the form that calibrating needs."""

    load: Load

    def run(self, seconds: float) -> None:
        """Be busy for about this long."""
        self.load(seconds)


def cuda_card() -> Card:
    """The first CUDA device. Raises NothingToReport without one."""
    try:
        import torch
    except ImportError:
        raise NothingToReport("torch is not installed") from None
    if not torch.cuda.is_available():
        raise NothingToReport("no CUDA device here: `make gpu` asks a machine that has a card")
    matmul = CudaMatmul(torch, 0)
    source = torch.empty(1 << 28, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)

    def copy(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            target.copy_(source)
            torch.cuda.synchronize()

    layers: list[Any] = [torch.nn.Linear(4096, 4096) for _ in range(8)]
    model = torch.nn.Sequential(*layers).cuda().half()
    inputs = torch.randn(2048, 4096, device="cuda", dtype=torch.float16)

    def forward(times: int) -> None:
        with torch.no_grad():
            for _ in range(10 * times):
                model(inputs)
            torch.cuda.synchronize()

    return Card(
        torch.cuda.get_device_name(0),
        f"GPU-{torch.cuda.get_device_properties(0).uuid}",
        torch.cuda.device_count(),
        {"matmul": matmul.run, "copy": copy, "sleep": time.sleep},
        forward,
        "cuda",
    )


def rig_card(control: Path) -> Card:
    """The stand-in behind this control file; its power is what the loads write."""
    from tests.fakes.nvml import NvmlRig

    rig = NvmlRig.attach(control)

    def drawing(watts: float) -> Load:
        return lambda seconds: _draw(rig, watts, seconds)

    return Card(
        rig.gpu(0).name.decode(),
        rig.uuid(0),
        int(rig.control.gpus),
        {"matmul": drawing(500.0), "copy": drawing(300.0), "sleep": time.sleep},
        lambda times: _draw(rig, 400.0, 0.02 * times),
    )


def _draw(rig: NvmlRig, watts: float, seconds: float) -> None:
    rig.set_power(0, watts)
    time.sleep(seconds)
    rig.set_power(0, 90.0)
