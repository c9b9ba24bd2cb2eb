"""A small real training for searches: a perceptron on scikit-learn's digits, in numpy.

    python -m benchmarks.training.digits_mlp [--lr L] [--batch-size B] [--momentum M] [--rule R]

It ends when it gets 96 % of the test images right, twice in a row. No torch: a search of it is
spent on training, not on imports.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np

import probe

TARGET = "accuracy>=0.96"
WIDTH, EVERY, MOST = 512, 512, 60_000  # hidden units; samples between evaluations, and in all
Arrays = list[np.ndarray]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797, 64) from 0 to 1, and labels; scikit-learn itself is not imported."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise SystemExit("the digits are scikit-learn's: pip install scikit-learn")
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1] / 16, table[:, -1].astype(int)


def sgd(lr: float, momentum: float, weights: Arrays) -> Callable[[Arrays], None]:
    """Gradient descent with momentum."""
    speed = [np.zeros_like(w) for w in weights]

    def step(gradients: Arrays) -> None:
        for w, v, g in zip(weights, speed, gradients, strict=True):
            v *= momentum
            v += g
            w -= lr * v

    return step


def adam(lr: float, momentum: float, weights: Arrays) -> Callable[[Arrays], None]:
    """Adam (Kingma and Ba 2015) with β₂ = 0.999."""
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    count = 0

    def step(gradients: Arrays) -> None:
        nonlocal count
        count += 1
        for w, m, v, g in zip(weights, first, second, gradients, strict=True):
            m += (1 - momentum) * (g - m)
            v += 0.001 * (g * g - v)
            root = np.sqrt(v / (1 - 0.999**count)) + 1e-8
            w -= lr * m / (1 - momentum**count) / root

    return step


def main() -> None:
    """Train once."""
    options = argparse.ArgumentParser()
    options.add_argument("--lr", type=float, default=3e-3)
    options.add_argument("--batch-size", type=int, default=16)
    options.add_argument("--momentum", type=float, default=0.9)
    options.add_argument("--rule", choices=("sgd", "adam"), default="sgd")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    images, labels = digits()
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1200], order[1200:]
    rng = np.random.default_rng(args.seed)
    sizes = (64, WIDTH, WIDTH, 10)
    weights = [
        rng.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32)
        for a, b in itertools.pairwise(sizes)
    ]
    step = (sgd if args.rule == "sgd" else adam)(args.lr, args.momentum, weights)
    with probe.watch(
        name="digits-mlp", data="digits", config={"seed": args.seed}, target=TARGET
    ) as run:
        done, next_evaluation, met = 0, EVERY, 0
        while met < 2 and done < MOST:
            chosen = rng.choice(train, args.batch_size)
            with run.phase("forward"):
                activations = forward(weights, images[chosen])
            with run.phase("backward"):
                gradients = backward(weights, activations, labels[chosen])
            with run.phase("optimizer"):
                step(gradients)
            done += args.batch_size
            run.log(samples=args.batch_size)
            if done >= next_evaluation:
                next_evaluation += EVERY
                with run.phase("eval"):
                    guess = forward(weights, images[test])[-1].argmax(1)
                accuracy = float((guess == labels[test]).mean())
                run.log(accuracy=accuracy)
                met = met + 1 if accuracy >= 0.96 else 0


def forward(weights: Arrays, x: np.ndarray) -> Arrays:
    """What each layer gives, the input first."""
    layers = [x]
    for at, w in enumerate(weights):
        z = layers[-1] @ w
        layers.append(z if at == len(weights) - 1 else np.maximum(z, 0))
    return layers


def backward(weights: Arrays, layers: Arrays, labels: np.ndarray) -> Arrays:
    """Gradients of the mean cross-entropy."""
    p = np.exp(layers[-1] - layers[-1].max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    delta = (p / len(labels)).astype(np.float32)
    gradients: Arrays = []
    for w, x in zip(weights[::-1], layers[-2::-1], strict=True):
        gradients.append(x.T @ delta)
        delta = (delta @ w.T) * (x > 0)
    return gradients[::-1]


if __name__ == "__main__":
    main()
