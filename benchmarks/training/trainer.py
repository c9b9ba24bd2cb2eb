"""What a training loop adds to a step: ours (watched), Lightning, Accelerate, HF Trainer.

    python benchmarks/trainer.py [--rounds 8] [--turns 960] [--processes 16]

The same small model, data and AdamW; each way in a process of its own, in turn, logging and
saving switched off where it can be. Measured is the time from one forward's beginning to the
next one's, median over a round, less that of the hand-written loop in the same process just before
and just after. Where those two differ by more than 5 % a neighbour woke up or left in between, and
the round is left out and counted, whatever it says.
Our recorder's start, some seconds of another core, is waited for (startup.py measures it).
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
import warnings
from collections.abc import Callable
from typing import Any

import torch
from common import ROOT, keep_heap, mean_and_bound, median_and_bound, save
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path[:0] = [str(ROOT), str(ROOT / "examples")]
warnings.simplefilter("ignore")
WAYS = ("hand-written", "phasewatt", "Accelerate", "HF Trainer", "Lightning")
STEPS, SKIPPED, BATCH = 2000, 100, 16
RATE = 1e-4
SETTLED_S = 5.0  # the recorder's imports
TINY, LARGE = 64, 256  # width of the model
POSITIONS = 80  # of every sample; so a step takes some 10 ms
WARM, IN_A_ROW = 10, 7  # steps of a turn: not counted, and whose median counts
APART = 0.05  # the hand-written loop before a round and after it
TRIES = 4  # times as many rounds as are wanted


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8)
        )
        self.times: list[int] = []
        self.pause_s = 0.0

    def forward(self, x: Any, labels: Any = None) -> Any:
        if self.pause_s and len(self.times) == SKIPPED // 2:
            time.sleep(self.pause_s)
        self.times.append(time.perf_counter_ns())
        out = self.body(x)
        if labels is None:
            return out
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}


def data() -> TensorDataset:
    torch.manual_seed(0)
    return TensorDataset(torch.randn(STEPS * BATCH, 32), torch.randint(0, 8, (STEPS * BATCH,)))


def adamw(net: Any) -> Any:
    return torch.optim.AdamW(net.parameters(), lr=RATE)


def by_hand(net: Net, _folder: str) -> None:
    optimizer = adamw(net)
    for x, y in DataLoader(data(), batch_size=BATCH, shuffle=True, drop_last=True):
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def ours(net: Net, folder: str) -> None:
    from optimizers import Trainer

    net.pause_s = SETTLED_S
    Trainer(
        net,
        data(),
        lambda model, b: nn.functional.cross_entropy(model(b[0]), b[1]),
        samples=STEPS * BATCH,
        batch_size=BATCH,
        lr=RATE,
        dir=folder,
        quiet=True,
    ).fit()


def accelerate(net: Net, _folder: str) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = DataLoader(data(), batch_size=BATCH, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(net, adamw(net), loader)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def hf_trainer(net: Net, folder: str) -> None:
    import transformers

    transformers.logging.set_verbosity_error()
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        learning_rate=RATE,
        max_grad_norm=0.0,
    )

    def collate(rows: Any) -> dict[str, Any]:
        return {"x": torch.stack([r[0] for r in rows]), "labels": torch.stack([r[1] for r in rows])}

    transformers.Trainer(
        model=net, args=arguments, train_dataset=data(), data_collator=collate
    ).train()


def lightning(net: Net, folder: str) -> None:
    import logging

    import lightning as pl

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: Any, _index: int) -> Any:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return adamw(self.net)

    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        devices=1,
    )
    loader = DataLoader(data(), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer.fit(Module(), loader)


LOOPS = dict(zip(WAYS, (by_hand, ours, accelerate, hf_trainer, lightning), strict=True))


def step_us(way: str, folder: str) -> float:
    """Median time of a step."""
    net = Net(TINY)
    LOOPS[way](net, folder)
    steps = [b - a for a, b in zip(net.times[SKIPPED:], net.times[SKIPPED + 1 :], strict=False)]
    assert len(steps) > STEPS // 2, f"{way} made {len(net.times)} steps"
    return statistics.median(steps) / 1e3


def serve(way: str) -> None:
    """Trains a round by hand, a round this way, one by hand, for each line that comes."""
    torch.set_num_threads(1)
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryDirectory() as folder:
        for _ in sys.stdin:
            print(
                step_us("hand-written", folder),
                step_us(way, folder),
                step_us("hand-written", folder),
                file=told,
            )


def compare(rounds: int) -> tuple[float, dict[str, list[float]], int]:
    """(µs of the hand-written step, what each way adds to it in every round, rounds left out)."""
    children = {
        way: subprocess.Popen(
            [sys.executable, __file__, "--serve", way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        for way in WAYS
    }
    plain: list[float] = []
    extra: dict[str, list[float]] = {way: [] for way in WAYS}
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


def by_turns(
    made: tuple[nn.Module, Any, Callable[..., Any]], batch_size: int, turns: int
) -> dict[str, float]:
    """Our loop, watched, against the hand-written one: {"plain_ms", "A/A", "ours"}, the last two
    as shares of its step.
    """
    import probe
    from optimizers import Trainer
    from optimizers.training.progress import Bar

    net, rows, value_of = made
    begun: list[int] = []  # ns, of every step

    def loss(model: nn.Module, batch: Any) -> Any:
        begun.append(time.perf_counter_ns())
        return value_of(model, batch)

    # The recorder may still be sealing when all is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        trainer = Trainer(
            net, rows, loss, samples=10**9, batch_size=batch_size, lr=RATE, dir=folder, quiet=True
        )
        optimizer, batches, silent = (
            trainer.engine.optimizer,
            trainer._batches,
            Bar(0, lambda: None, quiet=True),
        )

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

        with probe.watch(net, optimizer, dir=folder) as run:
            engine = run._engine
            engine.uninstall()
            time.sleep(SETTLED_S)
            times: dict[str, list[float]] = {"plain": [], "A/A": [], "ours": []}
            order = list(times)
            random.seed(0)
            for turn in range(turns + 5):
                random.shuffle(order)
                for name in order:
                    if name == "ours":
                        engine._model, engine._optimizers = net, [optimizer]
                        engine.install()
                    loop = ours if name == "ours" else by_hand
                    loop(WARM)
                    begun.clear()
                    loop(IN_A_ROW + 1)
                    if name == "ours":
                        engine.uninstall()
                    if turn >= 5:
                        steps = [b - a for a, b in itertools.pairwise(begun)]
                        times[name].append(statistics.median(steps) / 1e6)
    both = [(a + b) / 2 for a, b in zip(times["plain"], times["A/A"], strict=True)]
    found = {"plain_ms": statistics.median(both)}
    for name, against in (("A/A", times["plain"]), ("ours", both)):
        shares = [t / b - 1 for t, b in zip(times[name], against, strict=True)]
        found[name] = statistics.fmean(_calm(shares))
    return found


def spread(name: str, turns: int, processes: int) -> dict[str, Any]:
    """:func:`by_turns` in some processes, one after another."""
    means = [
        json.loads(
            subprocess.run(
                [sys.executable, __file__, "--model", name, "--turns", str(-(-turns // processes))],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            ).stdout
        )
        for _ in range(processes)
    ]
    plain_ms = statistics.median(mean["plain_ms"] for mean in means)
    print(f"{name} model, {plain_ms:.1f} ms, by turns with the hand-written loop:")
    found: dict[str, Any] = {"plain_ms": round(plain_ms, 2)}
    for who in ("A/A", "ours"):
        mean, upper = mean_and_bound([mean[who] for mean in means])
        found[who] = {
            "mean": round(mean, 5),
            "upper": round(upper, 5),
            "processes": [round(mean[who], 5) for mean in means],
        }
        print(f"  {who:14}{mean:>9.2%}   upper 95 % {upper:>8.2%}")
    return found


def _calm(values: list[float]) -> list[float]:
    """Without the tenth at either end: turns in which a neighbour woke up."""
    ordered = sorted(values)
    cut = len(ordered) // 10
    return ordered[cut : len(ordered) - cut]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--turns", type=int, default=960)
    options.add_argument("--processes", type=int, default=16)
    options.add_argument("--serve", choices=WAYS)
    options.add_argument("--model", choices=MODELS)
    args = options.parse_args()
    keep_heap()
    if args.serve:
        serve(args.serve)
        return
    if args.model:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        make, batch_size = MODELS[args.model]
        print(json.dumps(by_turns(make(), batch_size, args.turns)))
        return
    plain, extra, left_out = compare(args.rounds)
    print(
        f"hand-written loop {plain:.0f} µs per step; what each adds, median of "
        f"{min(map(len, extra.values()))} to {args.rounds} calm rounds ({left_out} left out)"
    )
    tiny = table(plain, extra)
    others = min(tiny[way]["median_us"] for way in WAYS[2:])
    fewest = tiny["phasewatt"]["median_us"] < others
    found = {
        "small": spread("small", args.turns // 2, args.processes),
        "shipped": spread("shipped", args.turns, args.processes),
    }
    little = found["shipped"]["ours"]["upper"] <= 0.01
    print(
        f"fewest µs of all: {'yes' if fewest else 'NO'}; ≤ 1 % of the shipped model's step: "
        f"{'held' if little else 'MISSED'}"
    )
    save(
        "trainer",
        {"rounds": args.rounds, "left_out": left_out, "plain_us": round(plain, 1), "ways": tiny}
        | found,
    )
    sys.exit(not (fewest and little))


if __name__ == "__main__":
    main()
