"""A residual CNN on scikit-learn's handwritten digits, watched.

    python examples/01_digits_cnn.py

1,797 images of 8 × 8 pixels that ship with scikit-learn; no download. Two lines of this
file are phasewatt's: `with probe.watch(...)` and `run.log(...)`. `--bare` leaves them out;
losses and weights are the same to the last bit.
"""

import argparse
import contextlib

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import probe

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--epochs", type=int, default=6)
options.add_argument("--steps", type=int, default=10**9, help="stop after so many steps")
options.add_argument("--seed", type=int, default=0)
options.add_argument("--bare", action="store_true", help="train without phasewatt")
options.add_argument("--weights", help="save losses and weights there")
args = options.parse_args()
torch.manual_seed(args.seed)

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16  # 0 … 1
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:1500], order[1500:]  # the test images are never trained on
loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=50, shuffle=True)


class Block(nn.Module):
    """x + f(x), twice convolved."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1),
    Block(32),
    nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1),
    Block(64),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
losses = []

watched = probe.watch(model, optimizer, name="digits-cnn", data="scikit-learn digits")
with contextlib.nullcontext() if args.bare else watched as run:
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            if len(losses) == args.steps:
                break
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            if run:
                run.log(loss=loss, samples=len(x))
        model.eval()
        with run.phase("eval") if run else contextlib.nullcontext(), torch.no_grad():
            accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
        print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}, test accuracy {accuracy:.3f}")

if args.weights:
    torch.save({"losses": losses, "weights": model.state_dict()}, args.weights)
if run:
    print(f"\n{run.report()}\n")
