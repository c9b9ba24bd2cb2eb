"""µs per step that the phase engine costs, against the bare loop, A/A beside it.

    python benchmarks/phases.py [blocks]

73 modules, 96 parameters, about 2 ms per step on one thread: small on purpose, so that
the cost stands out. CPU time of the process, blocks interleaved; a block's cost is its mean.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from probe.instrument import PhaseEngine
from probe.ring.writer import RingWriter

BAR_US = 35.0
STEPS = 60
WARM = 40  # installing hooks makes the next steps slower: once per run, not per step


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        return x + self.b(torch.relu(self.a(x)))


@contextlib.contextmanager
def bare(_model: nn.Module, _optimizer: Any) -> Iterator[None]:
    yield None


@contextlib.contextmanager
def engine(model: nn.Module, optimizer: Any) -> Iterator[PhaseEngine]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder)
        probe = PhaseEngine(
            lambda label, capacity: RingWriter(path / f"{label}.ring", capacity=capacity),
            model=model,
            optimizer=optimizer,
        )
        probe.install()
        try:
            yield probe
        finally:
            probe.uninstall()
            probe.end(False, 0)


def block(model: nn.Module, optimizer: Any, batches: Any, log: Any) -> float:
    """Mean CPU µs per step."""
    begin = 0
    for step in range(STEPS + WARM):
        if step == WARM:  # the first steps find the model and fill the caches
            begin = time.process_time_ns()
        x = next(batches)[0]
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if log is not None:
            log(loss=loss)
    return (time.process_time_ns() - begin) / STEPS / 1e3


def main(blocks: int) -> int:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*[Block() for _ in range(24)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 32))

    def endless() -> Iterator[Any]:
        while True:
            yield from torch.utils.data.DataLoader(data, batch_size=8)

    batches = endless()
    block(model, optimizer, batches, None)
    costs: dict[str, list[float]] = {"A/A": [], "phases": [], "phases + log": []}
    base = []
    for _ in range(blocks):  # interleaved in random order: a drift hits all alike
        order = ["bare", *costs]
        random.shuffle(order)
        found = {}
        for name in order:
            watch = engine if name.startswith("phases") else bare
            with watch(model, optimizer) as probe:
                log = probe.log if name == "phases + log" and probe is not None else None
                found[name] = block(model, optimizer, batches, log)
        base.append(found["bare"])
        for name, values in costs.items():
            others = found["bare"] if name == "A/A" else (found["bare"] + found["A/A"]) / 2
            values.append(found[name] - others)
    middle = statistics.median(base)
    print(f"bare loop {middle:.0f} µs per step, {blocks} blocks of {STEPS} steps")
    upper = 0.0
    for name, values in costs.items():
        mean, error = statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5
        upper = mean + 1.96 * error
        print(
            f"{name:14s} {mean:6.1f} ± {1.96 * error:4.1f} µs CPU per step, "
            f"median {statistics.median(values):6.1f}  = {100 * mean / middle:.2f} %"
        )
        if name == "phases":
            held = upper <= BAR_US
    print(f"bar {BAR_US:.0f} µs: {'held' if held else 'MISSED'}")
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
