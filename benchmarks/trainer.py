"""What a training loop adds to a step: ours (watched), Lightning, Accelerate, HF Trainer.

    python benchmarks/trainer.py [--rounds 8]

The same small model, data and AdamW; each way in a process of its own, in turn, logging and
saving switched off where it can be. Measured is the time from one forward's beginning to the
next one's, median over a round, less that of the hand-written loop in the same process just before.
Our recorder's start, some seconds of another core, is waited for (startup.py measures it).
Bars: ours is the smallest of all on a tiny model; on one whose step takes some 10 ms it is ≤ 1 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from common import ROOT, median_and_bound, save
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(ROOT))
warnings.simplefilter("ignore")
WAYS = ("hand-written", "phasewatt", "Accelerate", "HF Trainer", "Lightning")
STEPS, SKIPPED, BATCH = 2000, 100, 16
RATE = 1e-4
SETTLED_S = 5.0  # the recorder's imports
TINY, LARGE = 64, 1000  # width of the model; LARGE makes a step of some 10 ms
LARGE_STEPS = 250


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width),
                                  nn.ReLU(), nn.Linear(width, 8))
        self.steps = STEPS if width == TINY else LARGE_STEPS
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


def data(net: Net) -> TensorDataset:
    torch.manual_seed(0)
    rows = net.steps * BATCH
    return TensorDataset(torch.randn(rows, 32), torch.randint(0, 8, (rows,)))


def adamw(net: Any) -> Any:
    return torch.optim.AdamW(net.parameters(), lr=RATE)


def by_hand(net: Net, _folder: str) -> None:
    optimizer = adamw(net)
    for x, y in DataLoader(data(net), batch_size=BATCH, shuffle=True, drop_last=True):
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def ours(net: Net, folder: str) -> None:
    from optimizers import Trainer

    net.pause_s = SETTLED_S
    Trainer(net, data(net), lambda model, b: nn.functional.cross_entropy(model(b[0]), b[1]),
            samples=net.steps * BATCH, batch_size=BATCH, lr=RATE, dir=folder, quiet=True).fit()


def accelerate(net: Net, _folder: str) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = DataLoader(data(net), batch_size=BATCH, shuffle=True, drop_last=True)
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
        output_dir=folder, max_steps=net.steps, per_device_train_batch_size=BATCH, report_to="none",
        save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
        learning_rate=RATE, max_grad_norm=0.0,
    )

    def collate(rows: Any) -> dict[str, Any]:
        return {"x": torch.stack([r[0] for r in rows]), "labels": torch.stack([r[1] for r in rows])}

    transformers.Trainer(model=net, args=arguments, train_dataset=data(net),
                         data_collator=collate).train()


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
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, devices=1,
    )
    loader = DataLoader(data(net), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer.fit(Module(), loader)


LOOPS = dict(zip(WAYS, (by_hand, ours, accelerate, hf_trainer, lightning), strict=True))


def step_us(way: str, folder: str, width: int) -> float:
    """Median time of a step."""
    net = Net(width)
    LOOPS[way](net, folder)
    steps = [b - a for a, b in zip(net.times[SKIPPED:], net.times[SKIPPED + 1 :], strict=False)]
    assert len(steps) > net.steps // 2, f"{way} made {len(net.times)} steps"
    return statistics.median(steps) / 1e3


def serve(way: str, width: int) -> None:
    """Trains a round by hand, a round this way, for each line that comes."""
    torch.set_num_threads(1)
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryDirectory() as folder:
        for _ in sys.stdin:
            plain = step_us("hand-written", folder, width)
            print(plain, step_us(way, folder, width), file=told)


def compare(ways: Sequence[str], width: int, rounds: int) -> tuple[float, dict[str, list[float]]]:
    """(µs of the hand-written step, what each way adds to it in every round)."""
    children = {way: subprocess.Popen(
        [sys.executable, __file__, "--serve", way, "--width", str(width)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) for way in ways}
    plain: list[float] = []
    extra: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, child in children.items():
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write("\n")
            child.stdin.flush()
            before, after = map(float, child.stdout.readline().split())
            if number:  # the first one imports and warms up
                plain.append(before)
                extra[way].append(after - before)
    for child in children.values():
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    return statistics.median(plain), extra


def table(plain: float, extra: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Print it; a row per way."""
    rows = {}
    for way, values in extra.items():
        median, upper = median_and_bound(values)
        rows[way] = {"median_us": round(median, 1), "upper_us": round(upper, 1),
                     "mean_us": round(statistics.fmean(values), 1),
                     "share": round(median / plain, 5), "upper_share": round(upper / plain, 5)}
        name = "A/A" if way == "hand-written" else way
        print(f"  {name:14}{median:>9.1f} µs   upper 95 % {upper:>8.1f}   ({median / plain:.2%}, "
              f"{upper / plain:.2%})")
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--serve", choices=WAYS)
    options.add_argument("--width", type=int, default=TINY)
    args = options.parse_args()
    if args.serve:
        serve(args.serve, args.width)
        return
    plain, extra = compare(WAYS, TINY, args.rounds)
    print(f"hand-written loop {plain:.0f} µs per step; what each adds, median of "
          f"{args.rounds} rounds")
    tiny = table(plain, extra)
    others = min(tiny[way]["median_us"] for way in WAYS[2:])
    fewest = tiny["phasewatt"]["median_us"] < others
    large_plain, extra = compare(WAYS[:2], LARGE, args.rounds)
    print(f"hand-written loop {large_plain / 1e3:.1f} ms per step")
    large = table(large_plain, extra)
    small = large["phasewatt"]["upper_share"] <= 0.01
    print(f"fewest µs of all: {'yes' if fewest else 'NO'}; ≤ 1 % of the larger step: "
          f"{'held' if small else 'MISSED'}")
    save("trainer", {"rounds": args.rounds, "plain_us": round(plain, 1), "ways": tiny,
                     "large_plain_us": round(large_plain, 1), "large": large})
    sys.exit(not (fewest and small))


if __name__ == "__main__":
    main()
