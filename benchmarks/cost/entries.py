"""µs per step that an entry costs beside `probe.watch()` alone.

    python -m benchmarks.cost.entries [--turns 8] [--steps 600]

A tiny model under transformers' Trainer, Lightning, Keras on torch and skorch (those that are
installed), in one process and one watched run, in turns with and without the entry; every tenth
step is logged, and of the last two every epoch of 20. Two figures: how long the entry's own
hooks take beside those of an idle callback, all steps and logs together (what is promised: at most
20 µs), and by how much CPU time of a step differs between the turns, in the median over steps,
whose 95 % interval is that of the difference of the pairs.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import probe
from benchmarks.harness.results import save

BATCH, LOG_EVERY, SETTLE, EPOCH = 8, 10, 20, 20


class Hooks:
    """Adds up the time in an entry's hooks, less that in those of a callback that does nothing.

    The framework calls three callbacks one after the other: one that does nothing, the entry, and
    one that does nothing. The first finds the clock's code out of the caches, as it always is
    after a step, and is not counted: that is no cost of the entry's.
    """

    def __init__(self, entry: Any, idle: Callable[[], Any], names: tuple[str, ...]):
        self.callbacks = [idle(), entry, idle()]
        self.ns = dict.fromkeys(names, 0)
        for callback, sign in zip(self.callbacks, (0, 1, -1), strict=True):
            for name in names:
                setattr(callback, name, self._timed(name, getattr(callback, name), sign))

    def _timed(self, name: str, hook: Callable[..., Any], sign: int) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            began = time.perf_counter_ns()
            result = hook(*args, **named)
            self.ns[name] += sign * (time.perf_counter_ns() - began)
            return result

        return timed


def trainer(folder: Path, steps: int, with_entry: bool) -> tuple[list[float], dict[str, int]]:
    """CPU seconds of each step, and ns in each hook, of transformers' Trainer."""
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        PrinterCallback,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    from probe.integrations.hf import PhasewattCallback

    class Clock(TrainerCallback):
        def on_step_begin(self, *_args: Any, **_named: Any) -> None:
            marks.append(time.process_time())

    marks: list[float] = []
    hooks = Hooks(PhasewattCallback(), TrainerCallback, ("on_substep_end", "on_step_end", "on_log"))
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64}
    lines = torch.randint(0, 64, (steps * BATCH, 16))
    arguments = TrainingArguments(
        str(folder),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        logging_steps=LOG_EVERY,
        save_strategy="no",
        use_cpu=True,
        include_num_input_tokens_seen="all",
        disable_tqdm=True,
    )
    training = Trainer(
        LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)),
        arguments,
        train_dataset=[{"input_ids": line, "labels": line} for line in lines],
        callbacks=[Clock(), *(hooks.callbacks if with_entry else [])],
    )
    training.remove_callback(PrinterCallback)
    training.train()
    return _steps(marks), hooks.ns


def lightning(folder: Path, steps: int, with_entry: bool) -> tuple[list[float], dict[str, int]]:
    """The same of Lightning."""
    import lightning.pytorch as pl

    from probe.integrations.lightning import PhasewattCallback

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))

        def training_step(self, batch: Any, _i: int) -> Any:
            loss = self.net(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    class Clock(pl.Callback):
        def on_train_batch_start(self, *_args: Any) -> None:
            marks.append(time.process_time())

    marks: list[float] = []
    hooks = Hooks(PhasewattCallback(), pl.Callback, ("on_train_batch_end",))
    training = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=pl.loggers.CSVLogger(folder),
        callbacks=[Clock(), *(hooks.callbacks if with_entry else [])],
        log_every_n_steps=LOG_EVERY,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    rows = TensorDataset(torch.randn(steps * BATCH, 64))
    training.fit(Module(), DataLoader(rows, BATCH))
    return _steps(marks), hooks.ns


def keras(folder: Path, steps: int, with_entry: bool) -> tuple[list[float], dict[str, int]]:
    """The same of Keras on torch."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as framework

    from probe.integrations.keras import PhasewattCallback

    class Clock(framework.callbacks.Callback):
        def on_train_batch_begin(self, *_args: Any, **_named: Any) -> None:
            marks.append(time.process_time())

    marks: list[float] = []
    hooks = Hooks(
        PhasewattCallback(),
        framework.callbacks.Callback,
        ("on_train_batch_begin", "on_train_batch_end", "on_epoch_end"),
    )
    model = framework.Sequential([framework.layers.Dense(64) for _ in range(4)])
    model.compile(optimizer="adam", loss="mse")
    rows = torch.randn(EPOCH * BATCH, 64).numpy()
    callbacks = [Clock(), *(hooks.callbacks if with_entry else [])]
    epochs = steps // EPOCH
    model.fit(rows, rows, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=callbacks)
    return _steps(marks), hooks.ns


def skorch(folder: Path, steps: int, with_entry: bool) -> tuple[list[float], dict[str, int]]:
    """The same of skorch."""
    from skorch import NeuralNetRegressor
    from skorch.callbacks import Callback

    from probe.integrations.skorch import PhasewattCallback

    class Clock(Callback):  # type: ignore[misc]
        def on_batch_begin(self, *_args: Any, **_named: Any) -> None:
            marks.append(time.process_time())

    marks: list[float] = []
    hooks = Hooks(PhasewattCallback(), Callback, ("on_batch_end", "on_epoch_end"))
    net = NeuralNetRegressor(
        torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))),
        max_epochs=steps // EPOCH,
        batch_size=BATCH,
        train_split=None,
        verbose=0,
        callbacks=[Clock(), *(hooks.callbacks if with_entry else [])],
    )
    rows = torch.randn(EPOCH * BATCH, 64)
    net.fit(rows, rows)
    return _steps(marks), hooks.ns


def _steps(marks: list[float]) -> list[float]:
    pairs = zip(marks[SETTLE:], marks[SETTLE + 1 :], strict=False)
    return [after - before for before, after in pairs]


def main() -> None:
    """Print one line for each framework."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=8, help="at least 2, for an interval")
    parser.add_argument("--steps", type=int, default=600)
    asked = parser.parse_args()
    if asked.turns < 2:
        parser.error("an interval needs at least two turns")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    lines = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        with probe.watch(dir=folder / "runs"):
            for framework in (trainer, lightning, keras, skorch):
                differences, step = [], 0.0
                hooks: dict[str, float] = {}
                try:
                    framework(folder, SETTLE * 2, True)
                except ImportError as error:
                    print(f"{framework.__name__}: not measured: {error}")
                    continue
                for turn in range(asked.turns):
                    medians = {}
                    for with_entry in (turn % 2 == 0, turn % 2 == 1):
                        spent, in_hooks = framework(folder, asked.steps, with_entry)
                        medians[with_entry] = statistics.median(spent)
                        if with_entry:
                            for name, ns in in_hooks.items():
                                hooks[name] = (
                                    hooks.get(name, 0.0) + ns / 1e3 / asked.steps / asked.turns
                                )
                    differences.append(medians[True] - medians[False])
                    step = medians[False]
                mean = statistics.mean(differences)
                bound = 2.4 * statistics.stdev(differences) / len(differences) ** 0.5
                each = ", ".join(f"{name} {us:.1f}" for name, us in hooks.items())
                print(
                    f"{framework.__name__}: {sum(hooks.values()):.1f} µs in hooks a step ({each}), "
                    f"CPU {mean * 1e6:+.0f} ± {bound * 1e6:.0f} µs on {step * 1e3:.1f} ms"
                )
                lines.append({"framework": framework.__name__, "us": round(sum(hooks.values()), 2)})
    save("cost/entries", {"lines": lines})


if __name__ == "__main__":
    main()
