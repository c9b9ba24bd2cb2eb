"""Models of the loops. Each notes its own calls, takes a little time, and is otherwise ordinary."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from . import truth

SLOW_S = 0.001


def wait(seconds: float = SLOW_S) -> None:
    """As long as some arithmetic takes: the loops measure seconds, not arithmetic."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Slow(torch.autograd.Function):
    """The identity, whose backward takes its time."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:  # type: ignore[override]
        wait()
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        wait()
        return gradient


class Noted(nn.Module):
    """Notes its calls; subclasses have ``run`` for a forward."""

    def forward(self, *args: Any) -> Any:
        if truth.active is None:
            return self.run(*args)
        return truth.active.call(self, self.run, *args)

    def run(self, *args: Any) -> Any:
        raise NotImplementedError


class Net(Noted):
    """A multi-layer perceptron from 8 to ``outputs``."""

    def __init__(self, outputs: int = 1, inputs: int = 8):
        super().__init__()
        self.body, self.head = nn.Linear(inputs, 16), nn.Linear(16, outputs)

    def run(self, x: Any) -> Any:
        return self.head(torch.tanh(self.body(Slow.apply(x))))


class Smooth(Noted):
    """As Net, but twice differentiable: for penalties on gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 1)

    def run(self, x: Any) -> Any:
        wait()
        return self.head(torch.tanh(self.body(x)))


class Recurrent(Noted):
    """Carries a state from one call to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.RNNCell(8, 16), nn.Linear(16, 1)

    def run(self, x: Any, state: Any) -> Any:
        wait()
        state = self.cell(x, state)
        return self.head(state), state


class Part(Noted):
    """A layer that is called by itself."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def run(self, x: Any) -> Any:
        wait()
        return self.layer(x)


class Agent(nn.Module):
    """An actor and a critic, which are called; the agent itself never is."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = Part(8, 2), Part(8, 1)

    def act(self, state: Any) -> tuple[Any, Any]:
        return self.actor(state), self.critic(state)


class Wrapped(nn.Module):
    """A training step as a method, as trainers of frameworks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def training_step(self, x: Any) -> Any:
        return self.net(x).square().mean()
