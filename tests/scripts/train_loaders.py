"""Short trainings whose samples come in many ways; prints what each trained on, and was counted.

python train_loaders.py [CASE…]    one line of JSON: case → [samples by its own count, values of the
                                   report]; without a name all cases
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, TensorDataset

import probe

X, Y = torch.randn(103, 8), torch.zeros(103, dtype=torch.long)
DATA = TensorDataset(X, Y)


class Stream(IterableDataset[Any]):
    """Thirty samples, without a length."""

    def __iter__(self) -> Iterator[Any]:
        return iter([(X[i], Y[i]) for i in range(30)])


class Uneven:
    """A batch sampler of a user's, without a batch size."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([0, 1], [2, 3, 4], [5])

    def __len__(self) -> int:
        return 3


class Training:
    """A model, its optimizer, and how many samples it has stepped on."""

    def __init__(self) -> None:
        self.model = nn.Linear(8, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.trained = self._waiting = 0

    def backward(self, x: torch.Tensor, y: torch.Tensor, samples: int | None = None) -> None:
        nn.functional.cross_entropy(self.model(x), y).backward()
        self._waiting += len(x) if samples is None else samples

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.trained += self._waiting
        self._waiting = 0

    def epochs(self, loader: DataLoader[Any], number: int = 2, every: int = 1) -> None:
        for _ in range(number):
            for i, (x, y) in enumerate(loader):
                self.backward(x, y)
                if (i + 1) % every == 0:
                    self.step()


def evaluated(training: Training, _: probe.Run) -> None:
    for _ in range(3):
        training.epochs(DataLoader(DATA, batch_size=10), 1)
        training.model.eval()
        with torch.no_grad():
            for x, _y in DataLoader(DATA, batch_size=50):
                training.model(x)
        training.model.train()


def grads_off_for_the_forwards_only(training: Training, _: probe.Run) -> None:
    """As Hugging Face's Trainer evaluates."""
    for _ in range(2):
        training.epochs(DataLoader(DATA, batch_size=10), 1)
        for x, _y in DataLoader(DATA, batch_size=20):
            with torch.no_grad():
                training.model(x)


def loaded_ahead(training: Training, _: probe.Run) -> None:
    """A batch ahead, as accelerate does, an evaluation between."""
    batches = iter(DataLoader(DATA, batch_size=10))
    ahead = next(batches)
    for i, following in enumerate([*range(10), None]):
        now, ahead = ahead, None if following is None else next(batches)
        training.backward(*now)
        training.step()
        if i == 4:
            for x, _y in DataLoader(DATA, batch_size=20):
                with torch.no_grad():
                    training.model(x)


def taught(training: Training, _: probe.Run) -> None:
    """A teacher's forward comes before the student's."""
    for x, y in DataLoader(DATA, batch_size=10):
        with torch.no_grad():
            training.model(x)
        training.backward(x, y)
        training.step()


def twice(training: Training, _: probe.Run) -> None:
    """Two steps with each batch."""
    for x, y in DataLoader(DATA, batch_size=10):
        for _i in range(2):
            training.backward(x, y)
            training.step()


def cached(training: Training, _: probe.Run) -> None:
    batches = list(DataLoader(DATA, batch_size=10))
    for _ in range(5):
        for x, y in batches:
            training.backward(x, y)
            training.step()


def broken_off(training: Training, _: probe.Run) -> None:
    for i, (x, y) in enumerate(DataLoader(DATA, batch_size=10)):
        training.backward(x, y)
        training.step()
        if i == 5:
            break


def time_first(training: Training, _: probe.Run) -> None:
    """The first dimension of a batch is time."""
    loader = DataLoader(
        DATA, batch_size=10, collate_fn=lambda rows: torch.stack([row[0] for row in rows], 1)
    )
    for x in loader:
        y = torch.zeros(x.shape[1], dtype=torch.long)
        training.backward(x.T, y)
        training.step()


def logged(training: Training, run: probe.Run) -> None:
    for x, y in DataLoader(DATA, batch_size=10):
        training.backward(x, y, 7)
        training.step()
        run.log(samples=7)


def of(every: int = 1, **options: Any) -> Callable[[Training, probe.Run], None]:
    data = options.pop("data", DATA)
    return lambda training, _: training.epochs(DataLoader(data, **options), every=every)


CASES: dict[str, Callable[[Training, probe.Run], None]] = {
    "plain": of(batch_size=10),
    "last batch dropped": of(batch_size=10, drop_last=True),
    "workers": of(batch_size=10, num_workers=2),
    "workers that stay": of(batch_size=10, num_workers=1, persistent_workers=True),
    "accumulated": of(batch_size=10, every=3),
    "one by one": of(batch_size=None, data=[(X[i : i + 1], Y[i : i + 1]) for i in range(20)]),
    "a batch sampler": of(batch_sampler=BatchSampler(RandomSampler(DATA), 10, drop_last=False)),
    "an uneven batch sampler": of(batch_sampler=Uneven()),
    "a stream": of(batch_size=10, data=Stream()),
    "evaluated": evaluated,
    "gradients off for the forwards only": grads_off_for_the_forwards_only,
    "loaded ahead": loaded_ahead,
    "taught": taught,
    "twice": twice,
    "cached": cached,
    "broken off": broken_off,
    "time first": time_first,
    "logged": logged,
}


def main() -> None:
    results = {}
    for name in sys.argv[1:] or CASES:
        train, training = CASES[name], Training()
        with probe.watch(training.model, training.optimizer, name=name) as run:
            train(training, run)
        results[name] = training.trained, json.loads(run.report().to_json())["values"]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
