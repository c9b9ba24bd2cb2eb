"""A tiny training by the trainer, for the paper's tables.

    python train_for_tables.py MODEL STACK SEED NAME

MODEL is cnn or transformer. With NVML_RIG the fake GPU draws a power that depends on the stack.
"""

from __future__ import annotations

import os
import sys

import torch
from torch import nn
from torch.utils.data import TensorDataset

from optimizers import Stack, Trainer
from optimizers.training.ranks import leaving
from tests.fakes.nvml import NvmlRig

SAMPLES, BATCH, WINDOW, WORDS = 768, 32, 16, 12


class Attention(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


class Mlp(nn.Sequential):
    pass


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)
        self.mlp = Mlp(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


def cnn() -> nn.Module:
    stages = [
        nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        for _ in range(4)
    ]
    body = nn.Sequential(*stages)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3)
    )


def transformer() -> nn.Module:
    body = nn.Sequential(*(Block(32) for _ in range(4)))
    return nn.Sequential(nn.Embedding(WORDS, 32), body, nn.Linear(32, WORDS))


def images(count: int, seed: int) -> TensorDataset:
    """Noise that is brightest in one colour, which is the label."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (count,), generator=chance)
    pixels = torch.randn(count, 3, 12, 12, generator=chance)
    pixels[torch.arange(count), labels] += 0.25
    return TensorDataset(pixels, labels)


def sentences(count: int, seed: int) -> TensorDataset:
    """Words that mostly follow the one before."""
    chance = torch.Generator().manual_seed(seed)
    steps = torch.randint(0, 10, (count, WINDOW + 1), generator=chance).clamp(max=3)
    return TensorDataset((steps.cumsum(1)) % WORDS)


def main(kind: str, stack: str, seed: int, name: str) -> None:
    torch.set_num_threads(1)
    rig = NvmlRig.attach(os.environ["NVML_RIG"]) if os.environ.get("NVML_RIG") else None
    if rig is not None:
        rig.set_power(0, 300.0 if stack == "baseline" else 240.0)
    torch.manual_seed(seed)
    is_cnn = kind == "cnn"
    model = cnn() if is_cnn else transformer()
    data, held_out = (
        (images if is_cnn else sentences)(512, 1),
        (images if is_cnn else sentences)(128, 2),
    )

    def loss(net: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        if is_cnn:
            return nn.functional.cross_entropy(net(batch[0]).float(), batch[1])
        logits = net(batch[0][:, :-1]).float()
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch[0][:, 1:].flatten())

    def evaluate(net: nn.Module) -> dict[str, float]:
        if is_cnn:
            pixels, labels = held_out.tensors
            right = net(pixels).argmax(1) == labels
            return {"accuracy": float(right.float().mean())}
        nats = loss(net, [held_out.tensors[0]])
        return {"loss": float(nats), "perplexity": float(nats.exp())}

    trainer = Trainer(
        model,
        data,
        loss,
        stack=Stack.of(stack),
        samples=SAMPLES,
        batch_size=BATCH,
        lr=3e-3,
        evaluate=evaluate,
        eval_every=SAMPLES // 4,
        seed=seed,
        name=name,
        data_name="colours" if is_cnn else "small words",
        config={"model": f"a tiny {kind}"} | ({} if is_cnn else {"tokens_per_sample": WINDOW}),
        modules=True,
        quiet=True,
    )
    trainer.fit()


if __name__ == "__main__":
    with leaving():
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
