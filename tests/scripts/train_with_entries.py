"""Trainings with and without an entry of probe.integrations, in one process of their own.

python -m tests.scripts.train_with_entries FRAMEWORK FOLDER [WHAT …]

WHAT: ``meter`` waits until a meter has been read, ``raise`` lets the second training fail,
``caught`` catches that and trains again, ``planted`` makes what an entry calls raise (with
``begin`` its first call), ``registry`` names the entry in ``report_to``, ``alone`` leaves out the
training without it, ``early``: the entry is imported before its framework.
Prints as JSON what each training left.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from ..loops.models import Net

ROWS, BATCH, ACCUMULATE, EPOCHS, LENGTH = 22, 4, 2, 2, 16  # the last batch of an epoch has 2
WHAT: set[str] = set()


class Failure(Exception):
    pass


def digest(model: Any) -> str:
    parts = [value.detach().numpy().tobytes() for _, value in sorted(model.state_dict().items())]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def await_meter(training: Any) -> None:
    """Until a meter has been read twice."""
    end = time.monotonic() + 60
    while "phasewatt/energy_j" not in training.numbers() and time.monotonic() < end:
        time.sleep(0.05)
    first = training.numbers()["phasewatt/energy_j"]
    while training.numbers()["phasewatt/energy_j"] <= first and time.monotonic() < end:
        time.sleep(0.05)


def hf(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    from transformers import (
        EarlyStoppingCallback,
        LlamaConfig,
        LlamaForCausalLM,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
        )
    )

    def texts(rows: int) -> list[dict[str, Any]]:
        tokens = torch.randint(0, 64, (rows, LENGTH))
        return [{"input_ids": line, "labels": line} for line in tokens]

    callbacks: list[Any] = [EarlyStoppingCallback(5)]
    seen: dict[str, float] = {}
    if entry:
        from probe.integrations.hf import PhasewattCallback

        ours = PhasewattCallback(name="entry")
        callbacks.insert(0, ours)

    class Between(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if entry and "meter" in WHAT and state.global_step in (2, 4):
                await_meter(ours._training)
            if fails and state.global_step == 4:
                raise Failure("planted in the training")

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            seen.update(logs)

    out = folder / f"out-{int(entry)}-{int(fails)}"
    arguments = TrainingArguments(
        str(out),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATE,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        include_num_input_tokens_seen="all",
        logging_steps=1,
        remove_unused_columns=False,
        use_cpu=True,
        report_to=["phasewatt"] if entry and "registry" in WHAT else [],
        hub_token="hf_" + "a" * 34,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=texts(ROWS),
        eval_dataset=texts(4),
        callbacks=[*callbacks, Between()],
    )
    result = trainer.train()
    saved = out / f"checkpoint-{trainer.state.global_step}/trainer_state.json"
    state = json.loads(saved.read_text()) if trainer.is_world_process_zero() else {}
    return {
        "steps": trainer.state.global_step,
        "tokens": trainer.state.num_input_tokens_seen,
        "state": state,
        "seen": sorted(seen),
        "returned": sorted(result.metrics),
        "weights": digest(model),
    }


def pytorch_lightning(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    import pytorch_lightning as pl

    return fitted(pl, folder, entry, fails)


def lightning(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    import lightning.pytorch as pl

    return fitted(pl, folder, entry, fails)


def fitted(pl: Any, folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    import csv

    torch.manual_seed(0)

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = Net()

        def training_step(self, batch: Any, i: int) -> Any:
            loss = (self.net(batch["x"]) - batch["y"]).square().mean()
            self.log("loss", loss)
            if entry and "meter" in WHAT and self.global_step in (2, 4) and i % 2:
                await_meter(ours._training)
            if fails and self.global_step == 4:
                raise Failure("planted in the training")
            return loss

        def validation_step(self, batch: Any, _i: int) -> None:
            self.log("val", (self.net(batch["x"]) - batch["y"]).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), self.hparams.rate)

    rows = [
        {"x": torch.randn(8), "y": torch.randn(1), "input_ids": torch.arange(LENGTH)}
        for _ in range(ROWS)
    ]
    callbacks = []
    if entry:
        from probe.integrations.lightning import PhasewattCallback

        ours = PhasewattCallback(name="entry")
        callbacks.append(ours)
    logger = pl.loggers.CSVLogger(folder, name=f"log-{int(entry)}-{int(fails)}")
    module = Module(0.01)
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        accumulate_grad_batches=ACCUMULATE,
        logger=logger,
        callbacks=callbacks,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **({"strategy": "ddp", "devices": 2} if "RANK" in os.environ else {}),
    )
    trainer.fit(module, DataLoader(rows, BATCH), DataLoader(rows, BATCH))
    state: list[dict[str, str]] = []
    if trainer.is_global_zero:
        with open(Path(logger.log_dir) / "metrics.csv") as table:
            state = [{k: v for k, v in row.items() if v} for row in csv.DictReader(table)]
    return {
        "steps": trainer.global_step,
        "tokens": EPOCHS * ROWS * LENGTH,
        "state": state,
        "weights": digest(module),
    }


def accelerate(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    from accelerate import Accelerator

    torch.manual_seed(0)
    trackers: dict[str, Any] = {}
    if entry:
        from probe.integrations.accelerate import PhasewattTracker

        trackers = {"log_with": PhasewattTracker(name="entry")}
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATE, **trackers)
    accelerator.init_trackers("project", config={"rate": 0.01, "hub_token": "hf_" + "a" * 34})
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    rows = TensorDataset(torch.randn(ROWS, 8), torch.randn(ROWS, 1))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(rows, BATCH))
    steps, losses = 0, []
    for _ in range(EPOCHS):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = (model(x) - y).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
            if accelerator.sync_gradients:
                steps += 1
                accelerator.log({"loss": loss.item(), "note": "a text"}, step=steps)
            if fails and steps == 4:
                raise Failure("planted in the training")
    accelerator.end_training()
    return {"steps": steps, "state": losses, "weights": digest(accelerator.unwrap_model(model))}


def plant() -> None:
    """All that entries call fails, each in its own hook."""
    from probe.integrations import training_run
    from probe.session.run import Run

    def fail(*_args: Any, **_options: Any) -> Any:
        raise ValueError("planted in the entry")

    if "begin" in WHAT:
        training_run.start = fail
        return
    training_run.look_live = fail
    training_run.LiveNumbers.count = fail  # type: ignore[method-assign]
    Run.log = Run.configure = fail  # type: ignore[method-assign]


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    WHAT.update(sys.argv[3:])
    train = globals()[name]
    if "early" in WHAT:  # the entry is imported before the framework
        import probe.integrations.lightning as _entry  # noqa: F401
    left = [] if "alone" in WHAT else [train(folder, False, False)]
    if "planted" in WHAT:
        plant()
    if "caught" in WHAT:
        with contextlib.suppress(Failure):
            train(folder, True, True)
    left.append(train(folder, True, "raise" in WHAT))
    print("LEFT " + json.dumps(left), flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    main()
