"""Did a change pay, and in which phase? A small CNN on handwritten digits, with and without it.

    python examples/03_did_it_pay.py [--stack channels_last,fused] [--seeds 6]

Two processes, one for each side, train in turn, once for every seed, for the same number of
samples: so changes of the machine affect both alike. Then the runs are compared, phase by phase.
The data ship with scikit-learn. By default the change is two techniques that pay on most CPUs;
with `--stack paper`, the paper's stack, it is a loss there, since those are made for GPUs.

With `--seed` it trains one stack once, as `probe card`, `probe ablate` and `probe search` ask for.
"""

import argparse
import os
import subprocess
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

from optimizers import Stack, Trainer
from probe.compare import compare, formats

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--stack", default="channels_last,fused", help="paper, or names with commas")
options.add_argument("--seeds", type=int, default=6)
options.add_argument("--seed", type=int, help="train --stack once with this seed, and end")
options.add_argument("--samples", type=int, default=10_000, help="to train on, in each run")
options.add_argument("--worker", action="store_true", help="train once for each seed on stdin")
args = options.parse_args()
torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))  # the others are for what reads meters

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
data = torch.utils.data.TensorDataset(images, torch.tensor(digits.target))
train, test = torch.utils.data.random_split(data, [1000, 797], torch.Generator().manual_seed(0))
test_images, test_labels = test[:]


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


def model():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        Block(32),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 64, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )


def loss(net, batch):
    return nn.functional.cross_entropy(net(batch[0]).float(), batch[1])


def evaluate(net):
    return {"accuracy": float((net(test_images).argmax(1) == test_labels).float().mean())}


def train_once(stack, seed):
    torch.manual_seed(seed)
    trainer = Trainer(
        model(),
        train,
        loss,
        stack=Stack.of(stack),
        samples=args.samples,
        batch_size=50,
        lr=1e-3,
        evaluate=evaluate,
        eval_every=args.samples // 2,
        seed=seed,
        name=f"digits-{stack}",
        data_name="scikit-learn digits",
        quiet=True,
    )
    return trainer.fit()


def worker(stack):
    words = [sys.executable, __file__, "--stack", stack, "--samples", str(args.samples), "--worker"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


if args.worker:
    net = model()
    for _ in range(100):  # memory is touched, and the processor's clock is up
        loss(net, (test_images[:50], test_labels[:50])).backward()
    print("ready", flush=True)
    for line in sys.stdin:
        result = train_once(args.stack, int(line))
        print(f"{args.stack}, seed {int(line)}: {result}", result.run, sep="\t", flush=True)
    sys.exit()
if args.seed is not None:
    print(train_once(args.stack, args.seed))
    sys.exit()
runs = {"baseline": [], args.stack: []}
workers = {stack: worker(stack) for stack in runs}
for process in workers.values():
    process.stdout.readline()  # once it has imported all: it would slow the other one down
for seed in range(args.seeds):
    for side in sorted(runs, reverse=seed % 2 == 1):
        print(seed, file=workers[side].stdin, flush=True)
        text, _, run = workers[side].stdout.readline().strip().partition("\t")
        if not run:
            sys.exit(workers[side].wait() or 1)
        print(text, flush=True)
        runs[side].append(run)
for process in workers.values():
    process.stdin.close()
    process.wait()
print("\n" + formats.render(compare(",".join(runs["baseline"]), [",".join(runs[args.stack])])))
