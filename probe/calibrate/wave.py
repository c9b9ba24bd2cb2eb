"""A load that is switched on and off at random, so that no meter can run in step with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

SHORTEST_S, LONGEST_S = 0.02, 0.16


class Load(Protocol):
    """Something that draws power."""

    def run(self, seconds: float) -> None:
        """Be busy for about this long; returns when the device has finished."""


@dataclass(frozen=True, slots=True)
class Edge:
    """From ``time_ns`` on (monotonic) the load was busy, or idle."""

    time_ns: int
    busy: bool


def square_wave(load: Load, seconds: float, random: Random) -> Iterator[Edge]:
    """Busy and idle in turns of 20 to 160 ms, as long as asked for; the last edge ends it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield Edge(time.monotonic_ns(), True)
        load.run(random.uniform(SHORTEST_S, LONGEST_S))
        yield Edge(time.monotonic_ns(), False)
        time.sleep(random.uniform(SHORTEST_S, LONGEST_S))
    yield Edge(time.monotonic_ns(), True)


class CudaMatmul:
    """Half-precision matrix products, back to back."""

    _SIZE = 4096

    def __init__(self, torch: Any, index: int) -> None:
        self._torch, self._index = torch, index
        self._matrix = torch.randn(
            self._SIZE, self._SIZE, device=f"cuda:{index}", dtype=torch.float16
        )
        self._each_s = 0.001
        for _ in range(3):  # the first one loads the library
            begin = time.monotonic()
            self._work(50)
            self._each_s = (time.monotonic() - begin) / 50

    def run(self, seconds: float) -> None:
        self._work(max(1, round(seconds / self._each_s)))

    def _work(self, number: int) -> None:
        for _ in range(number):
            self._torch.mm(self._matrix, self._matrix)
        self._torch.cuda.synchronize(self._index)


def cuda_loads() -> list[tuple[str, Load]]:
    """(UUID as NVML writes it, load) of every visible CUDA device."""
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    return [
        (f"GPU-{torch.cuda.get_device_properties(index).uuid}", CudaMatmul(torch, index))
        for index in range(torch.cuda.device_count())
    ]
