"""What a training loop adds to a step (µs): ours (watched), Lightning, Accelerate, HF Trainer.

    python -m benchmarks.training.trainer [--rounds 8] [--turns 960] [--processes 16]

The same small model, data and AdamW (loops.py); each way in a separate process, in turn, logging
and saving switched off where it can be. Measured is the time from one forward's beginning to the
next one's, median over a round, less that of the hand-written loop in the same process just before
and just after. Where those two differ by more than 5 % a neighbour woke up or left in between, and
the round is left out and counted, whatever it says.
Our recorder's start, some seconds of another core, is waited for (cost/startup.py measures it).
Bar: ours is the smallest of all. Then our loop and the hand-written one by turns in one process, on
one thread: on a model whose step takes some 10 ms, and on the fastest one of those that our
examples train; bar there: ≤ 1 % more, by the upper 95 % bound. The turns are spread over several
processes, and the bound is of their means: where a process has its memory decides on half a per
cent, and more turns in the same one do not tell.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from scipy.stats import trim_mean
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.harness.hooks import hooks, watched
from benchmarks.harness.processes import keep_heap
from benchmarks.harness.results import ROOT, save
from benchmarks.harness.turns import bare_mean, by_turns, excess, mean_and_bound, median_and_bound

from .loops import BATCH, LOOPS, RATE, SETTLED_S, Net

OURS = ("hand-written", "phasewatt")
LARGE = 256  # width of the model
POSITIONS = 80  # of every sample; so a step takes some 10 ms
WARM, IN_A_ROW = 10, 7  # steps of a turn: not counted, and whose median counts
WARM_TURNS = 5
APART = 0.05  # the hand-written loop before a round and after it
TRIES = 4  # times as many rounds as are wanted


def compare(rounds: int) -> tuple[float, dict[str, list[float]], int]:
    """(µs of the hand-written step, what each way adds to it in every round, rounds left out)."""
    children = {
        way: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.training.loops", "--serve", way],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for way in LOOPS
    }
    plain: list[float] = []
    extra: dict[str, list[float]] = {way: [] for way in LOOPS}
    left_out = 0
    for number in range(1 + TRIES * rounds):
        for way, child in children.items():
            if len(extra[way]) == rounds:
                continue
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write("\n")
            child.stdin.flush()
            before, took, after = map(float, child.stdout.readline().split())
            if not number:  # the first one imports and warms up
                continue
            if abs(after - before) > APART * min(before, after):
                left_out += 1
                continue
            plain.append((before + after) / 2)
            extra[way].append(took - plain[-1])
    for child in children.values():
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert min(map(len, extra.values())) > 2, "no calm rounds: try again at a quieter time"
    return statistics.median(plain), extra, left_out


def table(plain: float, extra: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Print it; a row per way."""
    rows = {}
    for way, values in extra.items():
        median, upper = median_and_bound(values)
        rows[way] = {
            "median_us": round(median, 1),
            "upper_us": round(upper, 1),
            "mean_us": round(statistics.fmean(values), 1),
            "share": round(median / plain, 5),
            "upper_share": round(upper / plain, 5),
        }
        name = "A/A" if way == "hand-written" else way
        print(
            f"  {name:14}{median:>9.1f} µs   upper 95 % {upper:>8.1f}   ({median / plain:.2%}, "
            f"{upper / plain:.2%})"
        )
    return rows


def small() -> tuple[nn.Module, Any, Callable[..., Any]]:
    """Whose step takes some 10 ms: (model, data, loss)."""
    rows = TensorDataset(
        torch.randn(16 * BATCH, POSITIONS, 32), torch.randint(0, 8, (16 * BATCH, POSITIONS))
    )

    def loss(model: nn.Module, batch: Any) -> Any:
        return nn.functional.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    return Net(LARGE), rows, loss


def shipped() -> tuple[nn.Module, Any, Callable[..., Any]]:
    """The fastest model that our examples train with the trainer: resnet50_cifar10.py, tiny."""
    sys.path.append(str(ROOT / "examples"))
    import images
    from transformers import ResNetConfig, ResNetForImageClassification

    rows = images.Augmented(images.digits().train, train=True, mirror=False)

    def loss(model: nn.Module, batch: Any) -> Any:
        return nn.functional.cross_entropy(model(pixel_values=batch[0]).logits, batch[1])

    return (
        ResNetForImageClassification(
            ResNetConfig(
                num_labels=10,
                embedding_size=16,
                hidden_sizes=[32, 64],
                depths=[2, 2],
                layer_type="basic",
            )
        ),
        rows,
        loss,
    )


MODELS = {"small": (small, BATCH), "shipped": (shipped, 64)}


def compare_by_turns(
    made: tuple[nn.Module, Any, Callable[..., Any]], batch_size: int, turns: int
) -> dict[str, float]:
    """Our loop, watched, against the hand-written one.

    Returns {"plain_ms", "A/A", "ours"}, the last two as shares of the hand-written step.
    """
    from optimizers import Trainer
    from optimizers.training.progress import Bar

    net, rows, value_of = made
    begun: list[int] = []  # ns, of every step

    def loss(model: nn.Module, batch: Any) -> Any:
        begun.append(time.perf_counter_ns())
        return value_of(model, batch)

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            net, rows, loss, samples=10**9, batch_size=batch_size, lr=RATE, dir=folder, quiet=True
        )
        optimizer, batches = trainer.engine.optimizer, trainer._batches
        silent = Bar(0, lambda: None, quiet=True)

        def by_hand(steps: int) -> None:
            for _ in range(steps):
                batch = next(batches)
                value = loss(net, batch)
                value.backward()
                optimizer.step()
                optimizer.zero_grad()

        def ours(steps: int) -> None:
            trainer._samples = trainer._at.samples + steps * batch_size
            trainer._train(run, silent)

        def step_ms(loop: Callable[[int], None]) -> float:
            loop(WARM)
            begun.clear()
            loop(IN_A_ROW + 1)
            return statistics.median(b - a for a, b in itertools.pairwise(begun)) / 1e6

        def watched_step_ms() -> float:
            with hooks(run, net, optimizer):
                return step_ms(ours)

        with watched(net, optimizer, SETTLED_S) as run:
            ways = {
                "bare": lambda: step_ms(by_hand),
                "A/A": lambda: step_ms(by_hand),
                "ours": watched_step_ms,
            }
            random.seed(0)
            times = by_turns(ways, turns, warm=WARM_TURNS)
    # Without the tenth at either end: turns in which a neighbour woke up.
    means = {name: float(trim_mean(shares, 0.1)) for name, shares in excess(times).items()}
    return {"plain_ms": statistics.median(bare_mean(times)), **means}


def spread(name: str, turns: int, processes: int) -> dict[str, Any]:
    """:func:`compare_by_turns` in some processes, one after another."""
    per_process = str(-(-turns // processes))
    words = ("-m", "benchmarks.training.trainer", "--model", name, "--turns", per_process)
    means = [
        json.loads(
            subprocess.run(
                [sys.executable, *words],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            ).stdout
        )
        for _ in range(processes)
    ]
    plain_ms = statistics.median(mean["plain_ms"] for mean in means)
    print(f"{name} model, {plain_ms:.1f} ms, by turns with the hand-written loop:")
    figures: dict[str, Any] = {"plain_ms": round(plain_ms, 2)}
    for loop in ("A/A", "ours"):
        mean, upper = mean_and_bound([mean[loop] for mean in means])
        figures[loop] = {
            "mean": round(mean, 5),
            "upper": round(upper, 5),
            "processes": [round(mean[loop], 5) for mean in means],
        }
        print(f"  {loop:14}{mean:>9.2%}   upper 95 % {upper:>8.2%}")
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--turns", type=int, default=960)
    options.add_argument("--processes", type=int, default=16)
    options.add_argument("--model", choices=MODELS)
    args = options.parse_args()
    keep_heap()
    if args.model:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        make, batch_size = MODELS[args.model]
        print(json.dumps(compare_by_turns(make(), batch_size, args.turns)))
        return
    plain, extra, left_out = compare(args.rounds)
    print(
        f"hand-written loop {plain:.0f} µs per step; what each adds, median of "
        f"{min(map(len, extra.values()))} to {args.rounds} calm rounds ({left_out} left out)"
    )
    tiny = table(plain, extra)
    others = min(row["median_us"] for way, row in tiny.items() if way not in OURS)
    fewest = tiny["phasewatt"]["median_us"] < others
    spreads = {
        "small": spread("small", args.turns // 2, args.processes),
        "shipped": spread("shipped", args.turns, args.processes),
    }
    little = spreads["shipped"]["ours"]["upper"] <= 0.01
    print(
        f"fewest µs of all: {'yes' if fewest else 'NO'}; ≤ 1 % of the shipped model's step: "
        f"{'held' if little else 'MISSED'}"
    )
    save(
        "training/trainer",
        {"rounds": args.rounds, "left_out": left_out, "plain_us": round(plain, 1), "ways": tiny}
        | spreads,
    )
    sys.exit(not (fewest and little))


if __name__ == "__main__":
    main()
