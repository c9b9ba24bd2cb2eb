"""Trainings with and without an entry of probe.integrations, in one process of their own.

python -m tests.scripts.train_with_entries FRAMEWORK FOLDER [WHAT …]

WHAT: ``meter`` waits until a meter has been read, ``raise`` lets the second training fail, ``kill``
and ``term`` end its process by a signal, ``resume`` goes on from its last checkpoint in the run of
PROBE_RESUMED, ``caught`` catches the failure and trains again, ``planted`` makes what an entry
calls raise (with ``begin`` its first call), ``registry`` names the entry in ``report_to``,
``alone`` leaves out the training without it, ``early``: the entry is imported before its framework,
``beside``: ``probe.watch()`` records the training without it, and models take PACE_S a phase.
Prints as JSON what each training left.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import probe

from ..loops.models import Net

PACE_S = 0.3  # of a phase of a model that takes 5 ms itself, or 3 ms, as the machine is
ROWS, BATCH, ACCUMULATE, EPOCHS, LENGTH = 22, 4, 2, 2, 16  # the last batch of an epoch has 2
FAILS_AT = 3 if "RANK" in os.environ else 4  # this step: the first of the second epoch
WHAT: set[str] = set()


class Failure(Exception):
    pass


def fail() -> None:
    """End this training in the middle of it."""
    for what, number in (("kill", signal.SIGKILL), ("term", signal.SIGTERM)):
        if what in WHAT:
            os.kill(os.getpid(), number)
            return  # Lightning has a handler, which ends the training after this batch
    raise Failure("planted in the training")


def resumed() -> str | None:
    """The run that this training continues."""
    return os.environ.get("PROBE_RESUMED")


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

        ours = PhasewattCallback(name="entry", resume=resumed())
        callbacks.insert(0, ours)

    class Between(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if entry and "meter" in WHAT and state.global_step in (2, 4):
                await_meter(ours._training)
            if fails and state.global_step == FAILS_AT:
                fail()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            seen.update(logs)

    failed = bool(resumed()) or fails
    out = folder / f"out-{int(entry)}-{int(failed)}"
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
    result = trainer.train(resume_from_checkpoint=bool(resumed()))
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


def words_only(*words: str) -> Any:
    """A tokenizer that knows these words; of the others, and first of all, ``?``."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    numbers = {word: number for number, word in enumerate(["?", *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def of_a_trainer(folder: Path, entry: bool) -> dict[str, Any]:
    """Arguments that the trainers built on transformers' have in common."""
    return {
        "output_dir": str(folder / f"out-{int(entry)}"),
        "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH,
        "gradient_accumulation_steps": ACCUMULATE,
        "logging_steps": 1,
        "save_strategy": "no",
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
    }


def trained(trainer: Any, entry: bool, fails: bool) -> dict[str, Any]:
    """What such a trainer leaves."""
    from transformers import TrainerCallback

    class Between(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if fails and state.global_step == FAILS_AT:
                fail()

    if entry:
        from probe.integrations.hf import PhasewattCallback

        trainer.add_callback(PhasewattCallback(name="entry"))
    trainer.add_callback(Between())
    trainer.train()
    return {
        "steps": trainer.state.global_step,
        "state": trainer.state.log_history,
        "weights": digest(trainer.model),
    }


def sentence_transformers(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(0)
    embedding = StaticEmbedding(words_only("one", "two", "three"), embedding_dim=16)
    model = SentenceTransformer(modules=[embedding], device="cpu")
    pairs = {"first": ["one two"] * ROWS, "second": ["two three"] * ROWS, "label": [0.3] * ROWS}
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(**of_a_trainer(folder, entry)),
        train_dataset=Dataset.from_dict(pairs),
        loss=CosineSimilarityLoss(model),
    )
    return trained(trainer, entry, fails)


def trl(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    torch.manual_seed(0)
    tokenizer = words_only("</s>", "one", "two", "three")
    marks = {"eos_token": "</s>", "pad_token": "</s>", "unk_token": "?"}
    sizes = {"vocab_size": 5, "hidden_size": 32, "intermediate_size": 64}
    trainer = SFTTrainer(
        LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)),
        args=SFTConfig(bf16=False, **of_a_trainer(folder, entry)),
        train_dataset=Dataset.from_dict({"text": ["one two three two"] * ROWS}),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks),
    )
    return trained(trainer, entry, fails)


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
            if fails and self.global_step == FAILS_AT:
                fail()
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

        ours = PhasewattCallback(name="entry", resume=resumed())
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
    checkpoint = max(folder.glob("**/*.ckpt"), default=None) if resumed() else None
    trainer.fit(module, DataLoader(rows, BATCH), DataLoader(rows, BATCH), ckpt_path=checkpoint)
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
            if fails and steps == FAILS_AT:
                fail()
    accelerator.end_training()
    return {"steps": steps, "state": losses, "weights": digest(accelerator.unwrap_model(model))}


def keras(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    return fitted_by_keras("torch", folder, entry, fails)


def keras_jax(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    return fitted_by_keras("jax", folder, entry, fails)


def fitted_by_keras(backend: str, folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    os.environ["KERAS_BACKEND"] = backend
    import keras as framework
    import numpy as np

    framework.utils.set_random_seed(0)
    layers = framework.layers
    model = framework.Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])
    model.compile(
        framework.optimizers.Adam(0.01, gradient_accumulation_steps=ACCUMULATE),
        loss="mse",
        metrics=["mae"],
    )
    table = folder / f"log-{int(entry)}-{int(fails)}.csv"
    callbacks: list[Any] = []
    if entry:
        from probe.integrations.keras import PhasewattCallback

        ours = PhasewattCallback(name="entry")
        callbacks.append(ours)

    class Between(framework.callbacks.Callback):  # type: ignore[misc]
        batches = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches += 1
            if entry and "meter" in WHAT and self.batches in (4, 8):
                await_meter(ours._training)
            if fails and self.batches == 4 * ACCUMULATE:
                fail()

    values = np.random.default_rng(0)
    x, y = values.normal(size=(ROWS, 8)), values.normal(size=(ROWS, 1))
    history = model.fit(
        x.astype("float32"),
        y.astype("float32"),
        batch_size=BATCH,
        epochs=EPOCHS,
        validation_data=(x[:BATCH], y[:BATCH]),
        verbose=0,
        callbacks=[*callbacks, Between(), framework.callbacks.CSVLogger(str(table))],
    )
    weights = b"".join(np.asarray(value).tobytes() for value in model.get_weights())
    return {
        "steps": int(framework.ops.convert_to_numpy(model.optimizer.iterations)),
        "state": history.history,
        "csv": table.read_text().splitlines()[0].split(","),
        "weights": hashlib.sha256(weights).hexdigest(),
    }


def skorch(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    from sklearn.base import clone
    from skorch import NeuralNetRegressor
    from skorch.callbacks import Callback

    torch.manual_seed(0)
    callbacks: list[Any] = []
    if entry:
        from probe.integrations.skorch import PhasewattCallback

        callbacks.append(("ours", PhasewattCallback(name="entry")))

    class Between(Callback):  # type: ignore[misc]
        batches = 0

        def on_batch_end(self, net: Any, training: bool = False, **_: Any) -> None:
            self.batches += training
            if entry and "meter" in WHAT and training and self.batches in (4, 8):
                await_meter(dict(net.callbacks_)["ours"]._training)
            if fails and self.batches == 4:
                fail()

    net = NeuralNetRegressor(
        Net,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        optimizer=torch.optim.AdamW,
        lr=0.01,
        verbose=0,
        callbacks=[*callbacks, ("between", Between())],
    )
    net = clone(net)  # as a search over parameters does
    net.fit(torch.randn(ROWS, 8), torch.randn(ROWS, 1))
    times = {"dur", "batches"}
    return {
        "steps": sum(epoch["train_batch_count"] for epoch in net.history),
        "state": [{k: v for k, v in epoch.items() if k not in times} for epoch in net.history],
        "weights": digest(net.module_),
    }


def stable_baselines3(folder: Path, entry: bool, fails: bool) -> dict[str, Any]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    callbacks: list[Any] = []
    if entry:
        from probe.integrations.stable_baselines3 import PhasewattCallback

        ours = PhasewattCallback(name="entry")
        callbacks.append(ours)

    class Between(BaseCallback):
        rollouts = 0

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            self.rollouts += 1
            if entry and "meter" in WHAT and self.rollouts > 1:
                await_meter(ours._training)
            if fails and self.rollouts == 2:
                fail()

    agent = PPO(
        "MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, device="cpu", seed=0
    )
    logged: list[dict[str, Any]] = []
    from stable_baselines3.common.logger import KVWriter, Logger

    class Rows(KVWriter):
        def write(self, key_values: Any, key_excluded: Any, step: int = 0) -> None:
            logged.append({key: value for key, value in key_values.items() if "time/" not in key})

        def close(self) -> None:
            pass

    agent.set_logger(Logger(None, [Rows()]))
    agent.learn(64 * 3, callback=[*callbacks, Between()])
    return {
        "steps": agent._n_updates // 2 * 2 * 2,
        "state": json.loads(json.dumps(logged, default=float)),
        "weights": digest(agent.policy),
    }


def plant() -> None:
    """All that entries call fails, each in its own hook."""
    from probe.integrations import training_run
    from probe.session.run import Run

    def planted(*_args: Any, **_options: Any) -> Any:
        raise ValueError("planted in the entry")

    if "begin" in WHAT:
        training_run.start = planted
        return
    training_run.look_live = planted
    training_run.LiveNumbers.count = planted  # type: ignore[method-assign]
    Run.log = Run.configure = planted  # type: ignore[method-assign]


def spin(seconds: float) -> None:
    """Compute for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def pace() -> None:
    """A model takes PACE_S in a training's forward, and as long in the backward of its output.

    What these models take themselves varies with the machine, and is small beside it.
    """
    depth = 0  # of modules that call each other

    def entered(_module: Any, _inputs: Any) -> None:
        nonlocal depth
        depth += 1

    def left(_module: Any, _inputs: Any, output: Any) -> None:
        nonlocal depth
        depth -= 1
        if depth or not torch.is_grad_enabled():
            return
        spin(PACE_S)
        values = list(output.values()) if isinstance(output, dict) else output
        for value in values if isinstance(values, (tuple, list)) else [values]:
            if isinstance(value, torch.Tensor) and value.requires_grad:
                value.register_hook(lambda _gradient: spin(PACE_S))
                break

    torch.nn.modules.module.register_module_forward_pre_hook(entered)
    torch.nn.modules.module.register_module_forward_hook(left, always_call=True)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    WHAT.update(sys.argv[3:])
    train = globals()[name]
    if "beside" in WHAT:
        train(folder, False, False)  # the first training of a process is slower
        pace()
    if "early" in WHAT:  # the entry is imported before the framework
        import probe.integrations.lightning as _entry  # noqa: F401
    with probe.watch(name="watched") if "beside" in WHAT else contextlib.nullcontext():
        left = [] if "alone" in WHAT else [train(folder, False, False)]
    if "planted" in WHAT:
        plant()
    if "caught" in WHAT:
        with contextlib.suppress(Failure):
            train(folder, True, True)
    left.append(train(folder, True, bool(WHAT & {"raise", "kill", "term"})))
    print("LEFT " + json.dumps(left), flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    main()
