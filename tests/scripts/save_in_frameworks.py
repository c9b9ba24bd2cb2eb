"""Savers inside training loops under the phase engine, each in its own process.

python -m tests.scripts.save_in_frameworks SAVER FOLDER

Each saver is timed where the loop calls it, outside what we patch: every call is one visit of
``checkpoint``, whatever savers it calls in turn, and takes the same seconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ..fakes.phase_recording import Watched, watched
from ..fakes.process_group import single_rank

STEPS, EVERY = 6, 2
SHARE, EACH_S = 0.15, 0.001
WIDTH = 1024  # a save takes milliseconds
LOSS = nn.CrossEntropyLoss()
DATA = TensorDataset(torch.randn(STEPS * 8, WIDTH), torch.randint(0, WIDTH, (STEPS * 8,)))
Save = Callable[[nn.Module, Any, Path], object]


class Saves:
    """Saves that the loop made, and seconds that its thread spent on them."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        self.count += 1
        with self.waited():
            yield

    @contextlib.contextmanager
    def waited(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - began

    def check(self, run: Watched, steps: int = STEPS) -> None:
        assert run.steps == steps, run.steps
        assert run.counts["checkpoint"] == self.count > 0, (run.counts, self.count)
        seen, allowed = run.seconds("checkpoint"), max(SHARE * self.seconds, EACH_S * self.count)
        assert abs(seen - self.seconds) <= allowed, (seen, self.seconds)
        assert run.engine.all_warnings() == [], run.engine.all_warnings()
        print(f"{self.count} saves, true {self.seconds:.4f} s, seen {seen:.4f} s")


def net() -> nn.Module:
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))


def train(folder: Path, *savers: Save) -> None:
    """An ordinary loop that saves with each of the savers in turn."""
    saves, model = Saves(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with watched(folder) as run:
        for i, (x, y) in enumerate(DataLoader(DATA, batch_size=8)):
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            if i % EVERY == 1:
                for number, save in enumerate(savers):
                    with saves.counted():
                        save(model, optimizer, folder / f"{i}-{number}")
    saves.check(run)


def torch_save(folder: Path) -> None:
    from torch import save as by_name

    def to_file(model: nn.Module, optimizer: Any, path: Path) -> None:
        with path.open("wb") as file:
            torch.save([model.state_dict(), optimizer.state_dict()], file)

    train(
        folder,
        lambda model, optimizer, path: torch.save(model.state_dict(), path),
        lambda model, optimizer, path: by_name(model.state_dict(), path),
        lambda model, optimizer, path: torch.save(
            model.state_dict(), path, _use_new_zipfile_serialization=False
        ),
        to_file,
    )


def safetensors(folder: Path) -> None:
    from safetensors import torch as saver
    from safetensors.torch import save_file as by_name

    train(
        folder,
        lambda model, optimizer, path: saver.save_file(model.state_dict(), path),
        lambda model, optimizer, path: by_name(model.state_dict(), path),
        lambda model, optimizer, path: saver.save_model(model, str(path)),
        lambda model, optimizer, path: saver.save(model.state_dict()),
    )


def distributed(folder: Path) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import save as by_name

    def states(model: nn.Module, optimizer: Any) -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    train(
        folder,
        lambda model, optimizer, path: dcp.save(states(model, optimizer), checkpoint_id=path),
        lambda model, optimizer, path: by_name(states(model, optimizer), checkpoint_id=path),
        lambda model, optimizer, path: dcp.save_state_dict(
            states(model, optimizer), dcp.FileSystemWriter(path), no_dist=True
        ),
    )


def distributed_collective(folder: Path) -> None:
    """Collectives inside a save are part of it."""
    with single_rank(folder):
        distributed(folder)


def distributed_async(folder: Path, how: str = "", **options: Any) -> None:
    """What the training's thread spends on copying and on waiting; not what the other one does.

    Args:
        how: "by name": imported before; "writer": the writer copies; "staging": a thread does.
        options: of ``async_save``.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import staging

    begin_saving = dcp.async_save
    saves, model, future = Saves(), net(), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watched(folder) as run:
        if "by name" not in how:
            begin_saving = dcp.async_save
        for i, (x, y) in enumerate(DataLoader(DATA, batch_size=8)):
            LOSS(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            if i % EVERY != 1:
                continue
            if future is not None:
                with saves.waited():
                    future.result()
            path = folder / str(i)
            if "writer" in how:
                options["storage_writer"] = dcp.FileSystemWriter(path)
            if "staging" in how:
                asked = staging.StagingOptions(False, False, True, False)
                options["async_stager"] = staging.DefaultStager(asked)
            with saves.counted():
                begun = begin_saving(model.state_dict(), checkpoint_id=path, **options)
            future = begun
            if "staging" in how:
                with saves.waited():
                    begun.staging_completion.result()
                future = begun.upload_completion
        with saves.waited():
            assert future is not None
            future.result()
    saves.check(run)


def distributed_async_by_name(folder: Path) -> None:
    distributed_async(folder, "by name")


def distributed_async_writer(folder: Path) -> None:
    distributed_async(folder, "by name, writer")


def distributed_async_staging(folder: Path) -> None:
    distributed_async(folder, "staging")


def distributed_async_process(folder: Path) -> None:
    """Another process writes."""
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    with single_rank(folder):
        distributed_async(folder, async_checkpointer_type=AsyncCheckpointerType.PROCESS)


def transformers(folder: Path) -> None:
    """``save_pretrained`` in a loop of one's own; its files are written by safetensors."""
    from transformers import LlamaConfig, LlamaForCausalLM

    saves = Saves()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=4,
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watched(folder) as run:
        for i in range(STEPS):
            tokens = torch.randint(0, 64, (2, 16))
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if i % EVERY == 1:
                with saves.counted():
                    model.save_pretrained(folder / str(i))
    saves.check(run)


def trainer(folder: Path) -> None:
    """What ``Trainer`` saves of model, optimizer and its own state is one visit."""
    from transformers import Trainer, TrainingArguments

    saves = Saves()

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: Any = None, labels: Any = None) -> Any:
            logits = self.net(x)
            return {"loss": LOSS(logits, labels), "logits": logits}

    class Timed(Trainer):
        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            with saves.counted():
                super()._save_checkpoint(*args, **kwargs)

    timed = Timed(
        Wrapped(),
        TrainingArguments(
            str(folder / "out"),
            max_steps=STEPS,
            per_device_train_batch_size=8,
            use_cpu=True,
            report_to=[],
            logging_strategy="no",
            save_strategy="steps",
            save_steps=EVERY,
            disable_tqdm=True,
        ),
        train_dataset=[{"x": x, "labels": y} for x, y in DATA],
    )
    with watched(folder) as run:
        timed.train()
        with saves.counted():
            timed.save_model(str(folder / "last"))
    saves.check(run)


def accelerate(folder: Path) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    saves, model = Saves(), net()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(DATA, batch_size=8))
    with watched(folder) as run:
        for i, (x, y) in enumerate(loader):
            accelerator.backward(LOSS(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            if i % EVERY == 1:
                with saves.counted():
                    accelerator.save_state(str(folder / f"state-{i}"))
                with saves.counted():
                    accelerator.save_model(model, str(folder / f"model-{i}"))
                with saves.counted():
                    accelerator.save(model.state_dict(), str(folder / f"save-{i}"))
    saves.check(run)


def lightning(folder: Path, package: str = "lightning.pytorch") -> None:
    """Saves of the callback that ``Trainer`` brings."""
    import importlib

    pl: Any = importlib.import_module(package)
    saves = Saves()

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def training_step(self, batch: Any, _i: int) -> Any:
            return LOSS(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    class Timed(pl.callbacks.ModelCheckpoint):
        def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
            with saves.counted():
                super()._save_checkpoint(*args, **kwargs)

    fitted = pl.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=False,
        callbacks=[Timed(folder / "saved", every_n_train_steps=EVERY, save_top_k=-1)],
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    with watched(folder) as run:
        fitted.fit(Module(), DataLoader(DATA, batch_size=8))
        with saves.counted():
            fitted.save_checkpoint(folder / "last.ckpt")
    saves.check(run)


def pytorch_lightning(folder: Path) -> None:
    lightning(folder, "pytorch_lightning")


def deepspeed(folder: Path) -> None:
    os.environ |= {"DS_ACCELERATOR": "cpu"}
    import deepspeed as ds
    from deepspeed.ops import __compatible_ops__ as operations

    operations["deepspeed_shm_comm"] = False  # else it is compiled on first use
    saves, model = Saves(), net()
    with single_rank(folder), watched(folder) as run:
        ds.init_distributed("gloo", verbose=False)
        engine, _, _, _ = ds.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters()),
            config={
                "train_micro_batch_size_per_gpu": 8,
                "zero_optimization": {"stage": 2},
                "steps_per_print": 10**9,
            },
        )
        for i, (x, y) in enumerate(DataLoader(DATA, batch_size=8)):
            engine.backward(LOSS(engine(x), y))
            engine.step()
            if i % EVERY == 1:
                with saves.counted():
                    engine.save_checkpoint(str(folder / "saved"), tag=str(i))
                with saves.counted():
                    engine.save_16bit_model(str(folder / f"model-{i}"))
    saves.check(run)


def keras(folder: Path) -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as framework

    layers, saves = framework.layers, Saves()
    model = framework.Sequential([layers.Dense(WIDTH) for _ in range(4)])
    model.compile(optimizer="sgd", loss="mse")
    x = torch.randn(STEPS * 8, WIDTH).numpy()
    model.predict(x[:1], verbose=0)  # builds it
    with watched(folder) as run:
        model.fit(x, x, batch_size=8, verbose=0)
        for name in ("whole.keras", "whole.h5"):
            with saves.counted():
                model.save(str(folder / name))
        with saves.counted():
            model.save_weights(str(folder / "model.weights.h5"))
    saves.check(run)


def fabric(folder: Path) -> None:
    from lightning.fabric import Fabric

    tools, saves = Fabric(accelerator="cpu", devices=1), Saves()
    with watched(folder) as run:
        module = net()
        model, optimizer = tools.setup(module, torch.optim.SGD(module.parameters(), lr=0.01))
        for i, (x, y) in enumerate(DataLoader(DATA, batch_size=8)):
            tools.backward(LOSS(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            if i % EVERY == 1:
                with saves.counted():
                    tools.save(folder / str(i), {"model": model, "optimizer": optimizer})
    saves.check(run)


def sentence_transformers(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from tokenizers import Tokenizer, models

    saves = Saves()
    words = {str(number): number for number in range(WIDTH)}
    embedding = StaticEmbedding(Tokenizer(models.WordLevel(words, "0")), embedding_dim=WIDTH)
    model = SentenceTransformer(modules=[embedding, Normalize()], device="cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watched(folder) as run:
        for i in range(STEPS):
            features = model.tokenize(["1", str(i)])
            model(features)["sentence_embedding"].sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if i % EVERY == 1:
                with saves.counted():
                    model.save_pretrained(str(folder / str(i)))
    saves.check(run)


def skorch(folder: Path) -> None:
    from skorch import NeuralNetClassifier

    saves = Saves()
    x, y = DATA.tensors
    trained = NeuralNetClassifier(net(), max_epochs=1, batch_size=8, train_split=None, verbose=0)
    with watched(folder) as run:
        trained.fit(x, y)
        for name in "one", "two":
            with saves.counted():
                trained.save_params(
                    f_params=folder / name,
                    f_optimizer=folder / f"{name}-optimizer",
                    f_history=folder / f"{name}.json",
                )
    saves.check(run)


def stable_baselines3(folder: Path) -> None:
    from stable_baselines3 import PPO

    saves = Saves()
    with watched(folder) as run:
        agent = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, device="cpu")
        for name in "one", "two":
            agent.learn(64)
            with saves.counted():
                agent.save(folder / name)
    saves.check(run, steps=2 * 2 * 2)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    globals()[sys.argv[1]](Path(sys.argv[2]))
