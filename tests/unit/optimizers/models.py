"""Small models and data for the tests of the stack."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import TensorDataset

WIDTH, CLASSES = 16, 5


class Block(nn.Module):
    def __init__(self, width=WIDTH, dropout=0.0):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.drop(self.down(torch.tanh(self.up(self.norm(x)))))


def stacked(depth=4, dropout=0.0, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH),
        nn.Sequential(*(Block(dropout=dropout) for _ in range(depth))),
        nn.Linear(WIDTH, CLASSES),
    )


def samples(count=256, seed=1):
    """Points that one teacher labels, whatever the seed."""
    teacher = torch.randn(WIDTH, CLASSES, generator=torch.Generator().manual_seed(0))
    x = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, (x @ teacher).argmax(1))


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]).float(), batch[1])


def two_pass(model, batches):
    """σ² of the gradients of these batches, every gradient kept, in float64."""
    gradients = [
        torch.cat(
            [
                g.flatten().double()
                for g in torch.autograd.grad(loss(model, batch), list(model.parameters()))
            ]
        )
        for batch in batches
    ]
    stack = torch.stack(gradients)
    return float(((stack - stack.mean(0)) ** 2).sum() / (len(stack) - 1))
