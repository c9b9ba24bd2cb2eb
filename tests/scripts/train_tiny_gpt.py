"""A real training of a tiny GPT under the NVML rig: its phases draw known powers.

    python train_tiny_gpt.py --stack precision,schedule --seed 0 [--samples N] [--target T]

With NVML_RIG set. The text is the source of one module of the standard library.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import nn

from optimizers import Stack, Trainer
from optimizers.errors import ProbeError
from tests.fakes.nvml import NvmlRig

WINDOW, WIDTH, HEADS, DEPTH = 64, 96, 4, 4
WATTS = {"forward": 310.0, "backward": 450.0, "optimizer": 190.0, "rest": 90.0}


class Windows(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, data: bytes):
        self.ids = torch.frombuffer(bytearray(data), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.ids) // WINDOW - 1

    def __getitem__(self, place: int) -> torch.Tensor:
        return self.ids[place * WINDOW : place * WINDOW + WINDOW + 1].long()


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(DEPTH)
        )
        self.head = nn.Linear(WIDTH, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(WINDOW))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(WINDOW, device=tokens.device))
        for block in self.blocks:
            x = block(x, src_mask=self.mask, is_causal=True)
        return self.head(x)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--stack", default="baseline")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--samples", type=int, default=1600)
    options.add_argument("--target")
    args = options.parse_args()
    rig = NvmlRig.attach(os.environ["NVML_RIG"])

    def draw(phase: str) -> None:
        rig.set_power(0, WATTS[phase])

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        if not batch.is_meta:
            draw("forward")
        loss = nn.functional.cross_entropy(
            model(batch[:, :-1]).flatten(0, 1).float(), batch[:, 1:].flatten()
        )
        if loss.requires_grad and not batch.is_meta:
            loss.register_hook(lambda gradient: draw("backward") or gradient)
        return loss

    def optimizer(parameters: Any, *, lr: float, **more: Any) -> torch.optim.Optimizer:
        made = torch.optim.AdamW(parameters, lr=lr, **more)
        made.register_step_pre_hook(lambda *_: draw("optimizer"))
        made.register_step_post_hook(lambda *_: draw("rest"))
        return made

    torch.manual_seed(args.seed)
    source = Path(statistics.__file__).read_bytes()
    train, valid = (
        Windows(source[: len(source) * 9 // 10]),
        Windows(source[len(source) * 9 // 10 :]),
    )

    def evaluate(model: nn.Module) -> dict[str, float]:
        batch = torch.stack([valid[i] for i in range(len(valid))])
        value = float(loss(model, batch))
        draw("rest")
        return {"loss": value}

    print(
        Trainer(
            GPT(),
            train,
            loss,
            stack=Stack.of(args.stack),
            samples=args.samples,
            batch_size=32,
            lr=2e-3,
            optimizer=optimizer,
            evaluate=evaluate,
            eval_every=max(32, args.samples // 10),
            target=args.target,
            seed=args.seed,
            name=args.stack,
            data_name="statistics.py",
            quiet=True,
        ).fit()
    )


if __name__ == "__main__":
    try:
        main()
    except ProbeError as error:
        raise SystemExit(str(error)) from None
