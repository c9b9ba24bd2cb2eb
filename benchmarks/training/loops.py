"""The same small model trained by hand, by our trainer and by the frameworks; trainer.py times it.

    python -m benchmarks.training.loops --serve Lightning

serves one of them: for each line on stdin it prints the median µs of a step of a round by hand, of
one this way, and of one by hand again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.harness.processes import keep_heap

warnings.simplefilter("ignore")
STEPS, SKIPPED, BATCH = 2000, 100, 16
RATE = 1e-4
SETTLED_S = 5.0  # the recorder's imports
TINY = 64  # width of the model


class Net(nn.Module):
    """Three linear layers; it notes when each forward begins, and pauses once if told to."""

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


LOOPS = {
    "hand-written": by_hand,
    "phasewatt": ours,
    "Accelerate": accelerate,
    "HF Trainer": hf_trainer,
    "Lightning": lightning,
}


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
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with tempfile.TemporaryDirectory() as folder:
        for _ in sys.stdin:
            print(
                step_us("hand-written", folder),
                step_us(way, folder),
                step_us("hand-written", folder),
                file=answers,
            )


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--serve", choices=LOOPS, required=True)
    args = options.parse_args()
    keep_heap()
    serve(args.serve)


if __name__ == "__main__":
    main()
