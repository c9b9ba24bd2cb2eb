"""What watching costs a training on a card: its steps with and without, in turns of seconds."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

import probe
from benchmarks.harness.turns import mean_and_bound

from .cards import Card

_SETTLE_S = 2.0  # after hooks went on or off: the recorder opens its meters
_SIZES = {"cuda": (1024, 12, 16), "cpu": (64, 2, 4)}  # width, layers, batch


def gpt_step(device: str) -> Callable[[], None]:
    """One step of a training whose kernels are short: hooks cost most there."""
    import torch
    from torch import nn

    width, layers, batch = _SIZES[device]
    layer = nn.TransformerEncoderLayer(
        width, width // 32, 4 * width, batch_first=True, norm_first=True, dropout=0.0
    )
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(1000, width), encoder, nn.Linear(width, 1000)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    tokens = torch.randint(0, 1000, (batch, 129), device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # waits for the device

    return step


def step_times(card: Card, block_s: float, pairs: int) -> dict[str, Any]:
    """Mean step of each turn in ms, and by how much watched ones are longer.

    Each pair of turns is plain and watched in random order, beside a second plain turn (A/A).
    """
    step = gpt_step(card.device)
    turns: dict[str, list[float]] = {"plain": [], "watched": [], "plain again": []}
    with tempfile.TemporaryDirectory() as runs:
        for _ in range(pairs):
            for way in random.sample(list(turns), len(turns)):
                watched = probe.watch(dir=runs, devices=card.uuid)
                with watched if way == "watched" else nullcontext():
                    _mean_step_s(step, _SETTLE_S)
                    turns[way].append(1e3 * _mean_step_s(step, block_s))
    plain = np.array(turns["plain"])
    longer = {
        name: mean_and_bound((100 * (np.array(turns[way]) / plain - 1)).tolist())
        for name, way in (("watched_percent", "watched"), ("a_a_percent", "plain again"))
    }
    return {"ms": turns} | longer


def _mean_step_s(step: Callable[[], None], seconds: float) -> float:
    begin = now = time.monotonic()
    steps = 0
    while now < begin + seconds:
        step()
        steps += 1
        now = time.monotonic()
    return (now - begin) / steps
