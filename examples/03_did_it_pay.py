"""Did the stack pay? A small ResNet on handwritten digits, without and with the paper's techniques.

    python examples/03_did_it_pay.py [--stack precision,fused] [--seeds 4]

Trains both for the same number of samples, once for every seed, in turn and each in a process of
its own, so that changes of the machine affect both alike; then compares them. The
data ship with scikit-learn. What comes out may well be a loss: on a CPU most of these techniques
cost time.
"""

import argparse
import subprocess
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

from optimizers import Stack, Trainer
from probe.compare import compare, formats

options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--stack", default="paper", help="paper, or names with commas")
options.add_argument("--seeds", type=int, default=4)
options.add_argument("--samples", type=int, default=3200)
options.add_argument("--train", type=int, metavar="SEED", help="only train the stack once")
args = options.parse_args()

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
data = torch.utils.data.TensorDataset(images, torch.tensor(digits.target))
train, test = torch.utils.data.random_split(data, [1500, 297], torch.Generator().manual_seed(0))
test_images, test_labels = test[:]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )

    def forward(self, x):
        return torch.relu(x + self.inner(x))


def model():
    return nn.Sequential(
        nn.Conv2d(1, 48, 3, padding=1),
        nn.Sequential(*map(Block, [48] * 4)),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 48, 10),
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
        batch_size=64,
        lr=3e-3,
        evaluate=evaluate,
        eval_every=args.samples // 4,
        seed=seed,
        name=f"digits-{stack}",
        data_name="scikit-learn digits",
    )
    if seed == 0 and stack != "baseline":
        print(trainer.table)
    result = trainer.fit()
    print(f"{stack}, seed {seed}: {result}", flush=True)
    print(result.run)


def in_a_process(stack, seed):
    words = [
        sys.executable,
        __file__,
        "--stack",
        stack,
        "--train",
        str(seed),
        "--samples",
        str(args.samples),
    ]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    *lines, run = done.stdout.splitlines() or [""]
    print("\n".join(lines), flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    return run


if args.train is not None:
    train_once(args.stack, args.train)
    sys.exit()
runs = {"baseline": [], args.stack: []}
for seed in range(args.seeds):
    for side in sorted(runs, reverse=seed % 2 == 1):
        runs[side].append(in_a_process(side, seed))
print("\n" + formats.render(compare(",".join(runs["baseline"]), [",".join(runs[args.stack])])))
