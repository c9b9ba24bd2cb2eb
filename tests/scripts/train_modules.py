"""A small transformer on the CPU with ``modules=True``; it logs a loss and an accuracy.

python train_modules.py SECONDS    # watches into $PROBE_DIR
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

import probe


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 64)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(3)
        )
        self.head = nn.Linear(64, 256)

    def forward(self, x):
        hidden = self.embedding(x)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def main(seconds: float) -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    with probe.watch(net, optimizer, name="modules", modules=True, config={"depth": 3}) as run:
        print(run.path.name, flush=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            x = torch.randint(0, 256, (4, 48))
            out = net(x).flatten(0, 1)
            loss = nn.functional.cross_entropy(out, x.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            right = (out.argmax(1) == x.flatten()).float().mean()
            run.log(loss=loss.item(), accuracy=right.item(), samples=len(x))


if __name__ == "__main__":
    main(float(sys.argv[1]))
