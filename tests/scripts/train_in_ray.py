"""A training of Ray Train with the entry of probe.integrations, on two workers.

python -m tests.scripts.train_in_ray FOLDER [WHAT …]

WHAT: ``raise`` lets rank 1 fail after its second step, ``planted`` makes what the entry calls
raise, ``meter`` waits until a meter has been read.
Writes what rank 0 reported last into reported.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

STEPS, RANKS = 6, 2


def train_loop(config: dict[str, Any]) -> None:
    import ray.train
    import torch
    from ray.train.torch import prepare_data_loader, prepare_model
    from torch.utils.data import DataLoader, TensorDataset

    from probe.integrations.ray import energy

    from ..loops.models import Net

    torch.manual_seed(0)
    model = prepare_model(Net())
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    rows = TensorDataset(torch.randn(STEPS * 4 * RANKS, 8), torch.randn(STEPS * 4 * RANKS, 1))
    loader = prepare_data_loader(DataLoader(rows, batch_size=4))
    for step, (x, y) in enumerate(loader):
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if "raise" in config["what"] and step == 1 and ray.train.get_context().get_world_rank():
            raise ValueError("planted in the training")
        if "meter" in config["what"] and step == STEPS - 1:
            end = time.monotonic() + 60
            while "phasewatt/watts" not in energy() and time.monotonic() < end:
                time.sleep(0.05)
        reported = {"step": step + 1, "loss": loss.item(), **energy()}
        ray.train.report(reported)
        if not ray.train.get_context().get_world_rank():
            Path(config["folder"], "reported.json").write_text(json.dumps(reported))


def planted(config: dict[str, Any]) -> None:
    from probe.integrations import training_run

    def fail(*_args: Any, **_options: Any) -> Any:
        raise OSError("planted in the entry")

    training_run.start = fail
    from probe.integrations.ray import watched

    watched(train_loop, name="entry")(config)


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2:]
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    from probe.integrations.ray import watched

    ray.init(num_cpus=RANKS + 1, include_dashboard=False)  # one for the trainer of older releases
    trainer = TorchTrainer(
        planted if "planted" in what else watched(train_loop, name="entry"),
        train_loop_config={"what": what, "folder": str(folder)},
        scaling_config=ScalingConfig(num_workers=RANKS),
        run_config=RunConfig(name="experiment", storage_path=str(folder / "store")),
    )
    trainer.fit()
    ray.shutdown()


if __name__ == "__main__":
    main()
