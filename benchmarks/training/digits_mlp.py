"""A small real training for searches: a perceptron on scikit-learn's digits, in numpy.

    python -m benchmarks.training.digits_mlp [--lr L] [--batch-size B] [--momentum M] [--rule R] …

It ends when it gets 97 % of the test images right, twice in a row. No torch: a search of it is
spent on training, not on imports.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import probe

ENOUGH = 0.97
TARGET = f"accuracy>={ENOUGH}"
WIDTH, EVERY, MOST = 512, 512, 40_000  # hidden units; samples between evaluations, and in all
Arrays = list[np.ndarray]
Mask = np.ndarray | None


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
    options.add_argument("--decay", type=float, default=0.0, help="of the weights, decoupled")
    options.add_argument("--gain", type=float, default=1.0, help="times He's first weights")
    options.add_argument("--smoothing", type=float, default=0.0, help="of the labels")
    options.add_argument("--clipping", type=float, help="of the gradient's norm")
    options.add_argument("--dropout", type=float, default=0.0, help="of hidden units")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    images, labels = digits()
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1200], order[1200:]
    rng = np.random.default_rng(args.seed)
    sizes = (64, WIDTH, WIDTH, 10)
    weights = [
        rng.normal(0, args.gain * np.sqrt(2 / a), (a, b)).astype(np.float32)
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
                masks = [
                    dropped(rng, (args.batch_size, WIDTH), args.dropout)
                    for _ in range(len(weights) - 1)
                ]
                activations = forward(weights, images[chosen], masks)
            with run.phase("backward"):
                wanted = np.full((args.batch_size, sizes[-1]), args.smoothing / sizes[-1])
                wanted[np.arange(args.batch_size), labels[chosen]] += 1 - args.smoothing
                gradients = backward(weights, activations, masks, wanted)
            with run.phase("optimizer"):
                clip(gradients, args.clipping)
                for w in weights:
                    w *= np.float32(1 - args.lr * args.decay)
                step(gradients)
            done += args.batch_size
            run.log(samples=args.batch_size)
            if done >= next_evaluation:
                next_evaluation += EVERY
                with run.phase("eval"):
                    guess = forward(weights, images[test])[-1].argmax(1)
                accuracy = float((guess == labels[test]).mean())
                run.log(accuracy=accuracy)
                met = met + 1 if accuracy >= ENOUGH else 0


def dropped(rng: np.random.Generator, shape: tuple[int, int], share: float) -> Mask:
    """What hidden units are multiplied by: 0 for a share of them; None where none is dropped."""
    if not share:
        return None
    return (rng.random(shape, dtype=np.float32) >= share) / np.float32(1 - share)


def clip(gradients: Arrays, most: float | None) -> None:
    """Scale them down to a norm of ``most``, if there is a limit."""
    if most is None:
        return
    norm = float(np.sqrt(sum(float((g * g).sum()) for g in gradients)))
    if norm > most:
        for g in gradients:
            g *= np.float32(most / norm)


def forward(weights: Arrays, x: np.ndarray, masks: Sequence[Mask] = ()) -> Arrays:
    """What each layer gives, the input first."""
    layers = [x]
    for at, w in enumerate(weights):
        z = layers[-1] @ w
        if at < len(weights) - 1:
            z = np.maximum(z, 0)
            if masks and (mask := masks[at]) is not None:
                z *= mask
        layers.append(z)
    return layers


def backward(weights: Arrays, layers: Arrays, masks: Sequence[Mask], wanted: np.ndarray) -> Arrays:
    """Gradients of the mean cross-entropy."""
    p = np.exp(layers[-1] - layers[-1].max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    delta = ((p - wanted) / len(wanted)).astype(np.float32)
    gradients: Arrays = []
    for w, x, mask in zip(weights[::-1], layers[-2::-1], (*masks[::-1], None), strict=True):
        gradients.append(x.T @ delta)
        delta = (delta @ w.T) * (x > 0)
        if mask is not None:
            delta *= mask
    return gradients[::-1]


if __name__ == "__main__":
    main()
