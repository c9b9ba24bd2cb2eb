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


class Mixed(nn.Module):
    """Of images and tokens of any size; with convolution, embedding and hidden matrices."""

    def __init__(self, dropout=0.0, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.convolution, self.embedding = nn.Conv2d(3, WIDTH, 3), nn.Embedding(11, WIDTH)
        self.blocks = nn.Sequential(*(Block(dropout=dropout) for _ in range(2)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs):
        images, tokens = inputs
        seen = self.convolution(images).mean((2, 3)) + self.embedding(tokens).mean(1)
        return self.head(self.blocks(seen))


class MixedSamples(torch.utils.data.Dataset):
    """Images of 16×16 with 24 tokens, and a class."""

    def __init__(self, count=256):
        source = torch.Generator().manual_seed(2)
        self.images = torch.randn(count, 3, 16, 16, generator=source)
        self.tokens = torch.randint(11, (count, 24), generator=source)
        self.classes = torch.randint(CLASSES, (count,), generator=source)

    def __len__(self):
        return len(self.classes)

    def __getitem__(self, i):
        return (self.images[i], self.tokens[i]), self.classes[i]


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
