"""A training on an accelerator that runs behind its host: a thread works off what was launched.

    python train_async_device.py SECONDS SEED     with NVML_RIG set; watches itself into $PROBE_DIR

The host launches and goes on; the power that the rig shows is that of the work, when it is done.
"""

from __future__ import annotations

import os
import queue
import random
import sys
import threading
import time
from typing import Any

import torch

import probe
from probe.instrument.device_clock.events import EventClock
from tests.fakes.nvml import NvmlRig

# Milliseconds and watts of the work; the watts tell it apart.
WORK = {"forward": (17.0, 310.0), "backward": (31.0, 520.0), "optimizer": (6.0, 180.0)}
IDLE_W = 70.0


class Event:
    at_ns: int | None = None


class Accelerator:
    """A :class:`~probe.instrument.device_clock.events.Driver`, and the device beneath it."""

    def __init__(self, rig: NvmlRig, chance: random.Random):
        self._rig, self._chance = rig, chance
        self._queue: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def launch(self, name: str) -> None:
        milliseconds, watts = WORK[name]
        self._queue.put((milliseconds * self._chance.gauss(1.0, 0.08) / 1e3, watts))

    def synchronize(self) -> None:
        self._queue.join()

    def _work(self) -> None:
        busy = False
        while True:
            item = self._queue.get()
            if isinstance(item, Event):
                item.at_ns = time.monotonic_ns()
            else:
                seconds, watts = item
                self._rig.set_power(0, watts)
                time.sleep(seconds)
                busy = True
            if busy and self._queue.empty():
                self._rig.set_power(0, IDLE_W)
                busy = False
            self._queue.task_done()

    def capturing(self) -> bool:
        return False

    def event(self) -> Event:
        return Event()

    def record(self, event: Event) -> None:
        event.at_ns = None
        self._queue.put(event)

    def record_idle(self, event: Event) -> None:
        event.at_ns = time.monotonic_ns()

    def complete(self, event: Event) -> bool:
        return event.at_ns is not None

    def elapsed_ms(self, first: Event, second: Event) -> float:
        assert first.at_ns is not None and second.at_ns is not None
        return (second.at_ns - first.at_ns) / 1e6


def main(seconds: float, seed: int) -> None:
    sys.setswitchinterval(1e-4)  # a device does not wait until the host's interpreter lets it
    chance = random.Random(seed)
    device = Accelerator(NvmlRig.attach(os.environ["NVML_RIG"]), chance)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            device.launch("forward")
            output: torch.Tensor = self.linear(rows)
            output.register_hook(lambda _: device.launch("backward"))
            return output

    class Optimizer(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            device.launch("optimizer")
            return super().step(closure)

    model = Model()
    optimizer = Optimizer(model.parameters(), lr=1e-3)

    class Batches(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(max(0.0, chance.gauss(0.008, 0.004)))
                yield torch.ones(4)

    with probe.watch(model, optimizer, name="asynchronous") as run:
        engine = run._engine
        engine._cuda = object()  # so that it does not look for a real one
        engine._device = EventClock(device)
        engine._busy = True
        engine._machine.enrich(None, engine._device)
        for batch in torch.utils.data.DataLoader(Batches(), batch_size=4):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            device.synchronize()  # as loss.item() would


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
