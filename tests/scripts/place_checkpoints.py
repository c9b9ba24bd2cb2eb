"""√L, greedy, Chen's and the optimal checkpoints of two models: predicted and measured.

``place_checkpoints.py`` prints, for each model and budget: forward time run again (predicted), what
a step took longer (measured, shortest of 6 steps in turn with plain ones), peak of activations
(predicted and measured), and what no schedule adds less than.
"""

from __future__ import annotations

import copy
import time
import weakref
from collections.abc import Iterable

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from optimizers.analysis.checkpoint_plan import Placement, measure
from optimizers.analysis.free_schedule import bound
from optimizers.analysis.segments import added, least, peak
from optimizers.plan import Plan
from optimizers.techniques.checkpointing import segments

WIDTH = 64


class LiveActivations(TorchDispatchMode):
    """The most bytes of tensors of forward, or of its repetition, alive at a step of backward.

    Storages are followed by weak references, whoever holds them. What only lives inside a forward
    does not count: it is looked at when an operation of backward runs.
    """

    def __init__(self, resident: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._known = {tensor.untyped_storage()._cdata for tensor in resident}
        self._live = 0
        self.worst = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if torch.is_grad_enabled():
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    self._follow(leaf.untyped_storage())
        elif function is not torch.ops.aten.detach.default:  # checkpoint's, inside a forward
            self.worst = max(self.worst, self._live)
        return out

    def _follow(self, storage) -> None:
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self._live += storage.nbytes()
            weakref.finalize(storage, self._gone, storage._cdata, storage.nbytes())

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._live -= size


class ConvBlock(nn.Module):
    """Two convolutions; it keeps its input and its output, as does the block after it."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride=stride, padding=1)
        self.first_norm, self.second_norm = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(x)))


def convolutions() -> nn.Module:
    """Seven blocks of unlike widths and sizes."""
    torch.manual_seed(0)
    shapes = [(8, 8, 1), (8, 16, 1), (16, 16, 2), (16, 32, 1), (32, 32, 2), (32, 64, 1)]
    blocks = nn.Sequential(*(ConvBlock(*shape) for shape in [*shapes, (64, 64, 2)]))
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def transformer() -> nn.Module:
    """Eight encoder layers with dropout, the feed-forward parts of unlike widths."""
    torch.manual_seed(0)
    layers = [
        nn.TransformerEncoderLayer(WIDTH, 4, WIDTH * (4 if i % 3 else 8), 0.1, batch_first=True)
        for i in range(8)
    ]
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(*layers), nn.Linear(WIDTH, 10))


def cross_entropy(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]).flatten(0, -2), batch[1].flatten())


def images(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.Generator().manual_seed(1)
    return (
        torch.randn(count, 3, 32, 32, generator=numbers),
        torch.randint(10, (count,), generator=numbers),
    )


def sequences(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.Generator().manual_seed(1)
    return (
        torch.randn(count, 64, WIDTH, generator=numbers),
        torch.randint(10, (count, 64), generator=numbers),
    )


MODELS = {"transformer": (transformer, sequences), "cnn": (convolutions, images)}


def changed(model: nn.Module, placement: Placement) -> nn.Module:
    """A copy of the model that carries the plan out."""
    copied = copy.deepcopy(model)
    if placement.segments:
        for change in placement.technique().plan(Plan()).models:
            copied = change(copied)
    return copied


def measured_peak(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> int:
    with LiveActivations([*model.parameters(), *model.buffers(), *batch]) as live:
        cross_entropy(model, batch).backward()
    return live.worst


def step_seconds(models: list[nn.Module], batch: tuple[torch.Tensor, torch.Tensor]) -> list[float]:
    times: list[list[float]] = [[] for _ in models]
    for _ in range(6):
        for place, model in enumerate(models):
            begin = time.perf_counter()
            cross_entropy(model, batch).backward()
            times[place].append(time.perf_counter() - begin)
    return [min(of_model) for of_model in times]


def main() -> None:
    torch.set_num_threads(1)
    for name, (build, data) in MODELS.items():
        model, batch = build().train(), data(32)
        measured = measure(model, cross_entropy, batch)
        highest, lowest = peak(measured.chain, ()), least(measured.chain)
        roots = tuple(segments(len(measured.chain), None))
        root = Placement(
            tuple(tuple(measured.names[layer] for layer in segment) for segment in roots),
            round(peak(measured.chain, roots)),
            added(measured.chain, roots),
        )
        print(f"{name}: {highest / 2**20:.1f} MiB with nothing dropped, least {lowest / 2**20:.1f}")
        print("  budget MiB  plan       again ms  step + ms  peak MiB  measured")
        rows: list[tuple[str, str, Placement]] = [("", "√L", root)]
        bounds: dict[str, str] = {}
        for share in (0.0, 0.25, 0.5, 0.75):
            budget = lowest + share * (highest - lowest)
            label = f"{budget / 2**20:.1f}"
            for method, placement in measured.every(budget).items():
                if placement is None:
                    print(f"  {label:>10}  {method:<9}  no plan fits")
                else:
                    rows.append((label, method, placement))
            free = bound(measured.chain, budget)
            if free is not None:
                bounds[label] = f"{'' if free.exact else '≥ '}{1e3 * free.seconds:.1f}"
        for label, method, placement in rows:
            dropped = changed(model, placement)
            plain_s, dropped_s = step_seconds([copy.deepcopy(model), dropped], batch)
            print(
                f"  {label:>10}  {method:<9}  {1e3 * placement.seconds:8.1f}  "
                f"{1e3 * (dropped_s - plain_s):9.1f}  {placement.bytes / 2**20:8.2f}  "
                f"{measured_peak(dropped, batch) / 2**20:8.2f}"
            )
        for label, milliseconds in bounds.items():
            print(f"  {label:>10}  no schedule adds less than {milliseconds} ms")


if __name__ == "__main__":
    main()
