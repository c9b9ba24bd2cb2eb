"""Frameworks under the phase engine, each in its own process: they change global state."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from ..fakes.phase_recording import Watched, watched
from ..fakes.process_group import single_rank

N = 8
LOSS = nn.CrossEntropyLoss()
DATA = TensorDataset(torch.randn(1024, 64), torch.randint(0, 10, (1024,)))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def deepspeed(folder: Path) -> Watched:
    os.environ["DS_ACCELERATOR"] = "cpu"
    with watched(folder) as run, single_rank(folder):
        import deepspeed as ds
        from deepspeed.ops import __compatible_ops__ as operations

        operations["deepspeed_shm_comm"] = False  # else it is compiled on first use
        ds.init_distributed("gloo", verbose=False)
        model = net()
        engine, _, _, _ = ds.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters()),
            config={
                "train_micro_batch_size_per_gpu": 16,
                "gradient_accumulation_steps": 2,
                "zero_optimization": {"stage": 2},
                "gradient_clipping": 1.0,
                "steps_per_print": 10**9,
            },
        )
        batches = iter(DataLoader(DATA, batch_size=16))
        for _ in range(N * 2):
            x, y = next(batches)
            engine.backward(LOSS(engine(x), y))
            engine.step()
    assert run.micros == [2] * N, (run.micros, run.sequence())
    assert run.counts["optimizer"] >= N, run.counts
    assert run.usual_seconds("optimizer", skip=2) > run.usual_seconds("data", skip=2)
    assert "DeepSpeedEngine" in run.engine.model_found, run.engine.model_found
    return run


def hf(folder: Path) -> Watched:
    from transformers import Trainer, TrainingArguments

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: Any = None, labels: Any = None) -> Any:
            logits = self.net(x)
            return {"loss": LOSS(logits, labels), "logits": logits}

    class Items(Dataset[Any]):
        def __len__(self) -> int:
            return 1024

        def __getitem__(self, i: int) -> Any:
            return {"x": DATA[i][0], "labels": DATA[i][1]}

    trainer = Trainer(
        Wrapped(),
        TrainingArguments(
            str(folder / "out"),
            max_steps=N,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,
            use_cpu=True,
            report_to=[],
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Items(),
    )
    with watched(folder) as run:
        trainer.train()
    assert run.micros == [2] * N, run.micros
    assert run.counts["backward"] == 2 * N
    assert run.counts["forward"] == 2 * N, run.counts
    assert run.counts["optimizer"] == N
    return run


def lightning(folder: Path, which: str = "module") -> Watched:
    import lightning as lt

    class Module(lt.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def training_step(self, batch: Any, _i: int) -> Any:
            return LOSS(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    module = Module()
    trainer = lt.Trainer(
        max_steps=N,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    given = {"module": module, "inner": module.net, "auto": None}[which]
    with watched(folder, given) as run:
        trainer.fit(module, DataLoader(DATA, batch_size=16))
    assert run.micros == [1] * N, run.micros
    assert run.counts["forward"] == N, run.counts
    assert not run.inferred
    if which == "auto":
        assert run.engine.model_found.endswith("Sequential"), run.engine.model_found
    return run


def keras(folder: Path) -> Watched:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras as framework

    layers = framework.layers
    model = framework.Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    x, y = torch.randn(8 * N, 64).numpy(), torch.randn(8 * N, 1).numpy()
    model.predict(x[:1], verbose=0)  # builds it
    with watched(folder) as run:
        model.fit(x, y, batch_size=8, epochs=2, verbose=0, validation_data=(x[:32], y[:32]))
        model.save(str(folder / "model.keras"))
    assert run.steps == run.counts["optimizer"] == 2 * N
    assert run.counts["forward"] == run.counts["backward"] == 2 * N
    assert run.counts["data"] == 2 * N + 1  # one more is loaded for its shapes
    assert run.counts["eval"] == 2 * 4 and run.counts["checkpoint"] == 1
    return run


def sb3(folder: Path) -> Watched:
    """Proximal policy optimisation: its rollouts are inference, though in evaluation mode."""
    from stable_baselines3 import PPO

    with watched(folder) as run:
        agent = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, device="cpu")
        agent.learn(128)
    assert run.steps == run.counts["optimizer"] == run.counts["backward"] == 2 * 2 * 2
    assert run.counts["inference"] >= 128 and "eval" not in run.counts
    return run


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    name, _, kind = sys.argv[1].partition("_")
    folder = Path(sys.argv[2])
    torch.set_num_threads(1)
    shown = lightning(folder, kind or "module") if name == "lightning" else globals()[name](folder)
    print(shown.steps, shown.counts, shown.engine.model_found, shown.engine.warnings)
