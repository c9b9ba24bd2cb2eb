"""A small real training for searches: a perceptron on scikit-learn's digits, by the trainer.

    python -m benchmarks.training.digits_mlp [--stack S] [--batch-size B] [--lr L] [--seed N]

It ends when it gets 95 % of the test images right, twice in a row: 0.5 to 3 s on a CPU.
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

from optimizers import Stack, Trainer

TARGET = "accuracy>=0.95"


def main() -> None:
    """Train once."""
    options = argparse.ArgumentParser()
    options.add_argument("--stack", default="baseline")
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    torch.manual_seed(args.seed)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, test = order[:1200], order[1200:]
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )

    def loss(net: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return nn.functional.cross_entropy(net(batch[0]).float(), batch[1])

    def evaluate(net: nn.Module) -> dict[str, float]:
        return {"accuracy": float((net(images[test]).argmax(1) == labels[test]).float().mean())}

    Trainer(
        model,
        TensorDataset(images[train], labels[train]),
        loss,
        stack=Stack.of(args.stack),
        samples=60_000,
        batch_size=args.batch_size,
        lr=args.lr,
        evaluate=evaluate,
        eval_every=512,
        target=TARGET,
        seed=args.seed,
        name=f"digits-{args.stack}",
        data_name="scikit-learn digits",
        quiet=True,
        classify=False,
    ).fit()


if __name__ == "__main__":
    main()
