"""Loops of frameworks beside an independent count of what they did, each in its own process.

python -m tests.scripts.loops_of_frameworks LOOP FOLDER

Models, evaluations and saves note themselves, the rest is counted below the frameworks
(tests/loops/truth.py): forwards, backwards, steps, batches, evaluations and saves are the same.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from ..fakes import span_sums
from ..fakes.phase_recording import Watched, watched
from ..loops.compare import differences
from ..loops.models import Net
from ..loops.truth import SAVE, Truth

BATCHES, BATCH, ACCUMULATE, EVALUATED = 12, 4, 2, 3
SHARE, EACH_S = 0.1, 0.0005  # frameworks do things of their own around what is counted


def rows(batches: int) -> TensorDataset:
    return TensorDataset(torch.randn(batches * BATCH, 8), torch.randn(batches * BATCH, 1))


def saving(truth: Truth) -> Any:
    return truth.noted(SAVE, time.monotonic_ns())


def check(truth: Truth, run: Watched) -> None:
    """Of two epochs."""
    assert run.samples == 2 * BATCHES * BATCH
    seconds: dict[str, float] = {}
    for (_, code), spent in span_sums.seconds(run.spans).items():
        phase = run.names.get(code, str(code))
        seconds[phase] = seconds.get(phase, 0.0) + spent
    true = truth.counts().as_json()
    print(true, run.counts, seconds)
    wrong = differences(true, run.steps, run.counts, seconds, share=SHARE, each_s=EACH_S)
    assert not wrong, "; ".join(map(str, wrong))
    assert run.engine.all_warnings() == [], run.engine.all_warnings()


def accelerate(folder: Path) -> None:
    """Accumulation, clipping, a schedule, an evaluation and a save per epoch."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE)
    with Truth() as truth, watched(folder) as run:
        model, optimizer, training, held_out, schedule = prepared(accelerator)
        for epoch in range(2):
            model.train()
            for x, y in training:
                with accelerator.accumulate(model):
                    accelerator.backward((model(x) - y).square().mean())
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
            model.eval()
            with truth.evaluation(), torch.no_grad():
                for x, y in held_out:
                    accelerator.gather_for_metrics((model(x), y))
            with saving(truth):
                accelerator.save_state(str(folder / f"epoch-{epoch}"))
    check(truth, run)


def prepared(accelerator: Any) -> Any:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    return accelerator.prepare(
        model,
        optimizer,
        DataLoader(rows(BATCHES), batch_size=BATCH, shuffle=True),
        DataLoader(rows(EVALUATED), batch_size=BATCH),
        torch.optim.lr_scheduler.LinearLR(optimizer),
    )


def fabric(folder: Path) -> None:
    """Accumulation without synchronization, clipping, an evaluation and a save per epoch."""
    from lightning.fabric import Fabric

    tools = Fabric(accelerator="cpu", devices=1)
    with Truth() as truth, watched(folder) as run:
        module = Net()
        model, optimizer = tools.setup(module, torch.optim.AdamW(module.parameters()))
        training, held_out = tools.setup_dataloaders(
            DataLoader(rows(BATCHES), batch_size=BATCH, shuffle=True),
            DataLoader(rows(EVALUATED), batch_size=BATCH),
        )
        for epoch in range(2):
            model.train()
            for number, (x, y) in enumerate(training, 1):
                accumulates = number % ACCUMULATE != 0
                with tools.no_backward_sync(model, enabled=accumulates):
                    tools.backward((model(x) - y).square().mean())
                if not accumulates:
                    tools.clip_gradients(model, optimizer, max_norm=1.0)
                    optimizer.step()
                    optimizer.zero_grad()
            model.eval()
            with truth.evaluation(), torch.no_grad():
                for x, y in held_out:
                    tools.all_gather((model(x), y))
            with saving(truth):
                tools.save(folder / f"epoch-{epoch}", {"model": model, "optimizer": optimizer})
    check(truth, run)


def transformers(folder: Path) -> None:
    """``Trainer`` and a language model made from its configuration; evaluates, saves."""
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    class Noted(LlamaForCausalLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return truth.call(self, functools.partial(super().forward, *args, **kwargs))

    class Declared(Trainer):
        def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
            with truth.evaluation():
                return super().evaluation_loop(*args, **kwargs)

        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            with saving(truth):
                super()._save_checkpoint(*args, **kwargs)

    model = Noted(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
        )
    )

    def texts(batches: int) -> list[dict[str, Any]]:
        tokens = torch.randint(0, 64, (batches * BATCH, 16))
        return [{"input_ids": line, "labels": line} for line in tokens]

    arguments = TrainingArguments(
        str(folder / "out"),
        num_train_epochs=2,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATE,
        eval_strategy="epoch",
        save_strategy="epoch",
        remove_unused_columns=False,  # it would look at the names that forward takes
        use_cpu=True,
        report_to=[],
        logging_strategy="no",
        disable_tqdm=True,
    )
    with Truth() as truth, watched(folder) as run:
        trainer = Declared(
            model, arguments, train_dataset=texts(BATCHES), eval_dataset=texts(EVALUATED)
        )
        trainer.train()
    check(truth, run)


def lightning(folder: Path) -> None:
    """``fit`` with its check of the validation before the first step, validations and saves."""
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, _i: int) -> Any:
            return (self.net(batch[0]) - batch[1]).square().mean()

        def validation_step(self, batch: Any, _i: int) -> None:
            with truth.evaluation():
                self.net(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    class Declared(pl.callbacks.ModelCheckpoint):
        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            with saving(truth):
                super()._save_checkpoint(*args, **kwargs)

    with Truth() as truth:
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="cpu",
            accumulate_grad_batches=ACCUMULATE,
            logger=False,
            callbacks=[Declared(folder / "saved", save_top_k=-1, every_n_epochs=1)],
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        with watched(folder) as run:
            trainer.fit(
                Module(),
                DataLoader(rows(BATCHES), batch_size=BATCH),
                Evaluated(rows(EVALUATED), truth),
            )
    check(truth, run)


class Evaluated(DataLoader[Any]):
    """A loader of an evaluation, which it declares."""

    def __init__(self, data: TensorDataset, truth: Truth):
        super().__init__(data, batch_size=BATCH)
        object.__setattr__(self, "truth", truth)

    def __iter__(self) -> Any:
        batches = super().__iter__()
        while True:
            with self.truth.evaluation():  # type: ignore[attr-defined]
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    globals()[sys.argv[1]](Path(sys.argv[2]))
