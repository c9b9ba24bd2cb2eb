"""Forward and backward by kind of module: marks, what they change (nothing), what they leave."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.phase_recording import watched

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from probe.instrument.module_kinds.listeners import kind_of  # noqa: E402


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attn = SelfAttention()
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.before(x))
        return x + self.mlp(self.after(x))


class Net(nn.Module):
    def __init__(self, *, saves: bool = False) -> None:
        super().__init__()
        self.first, self.saves = nn.Linear(8, 16), saves
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(16, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.saves else block(x)
        return self.head(x)


def train(net: Any, steps: int = 3) -> list[float]:
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        loss = net(torch.randn(2, 5, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_kinds() -> None:
    assert kind_of("x", nn.MultiheadAttention(8, 2)) == "attention"
    assert kind_of("attn", SelfAttention()) == "attention"
    assert kind_of("mlp", nn.Sequential()) == "mlp" and kind_of("ffn", nn.Sequential()) == "mlp"
    assert kind_of("0", nn.Conv2d(1, 1, 1)) == "convolution"
    assert kind_of("0", nn.BatchNorm2d(1)) == kind_of("0", nn.RMSNorm(1)) == "norm"
    assert kind_of("0", nn.Linear(1, 1)) is None and kind_of("0", nn.Sequential()) is None


def test_every_kind_has_its_phases_and_steps_stay_what_they_are(tmp_path: Path) -> None:
    net = Net()
    with watched(tmp_path, net, modules=True) as run:
        train(net)
    assert run.steps == 3 and run.micros == [1, 1, 1]
    assert run.counts["forward"] == run.counts["backward"] == 3
    # Two blocks of three steps; the norm inside the attention belongs to it.
    assert run.counts["forward/attention"] == run.counts["forward/mlp"] == 6
    assert run.counts["forward/norm"] == 12
    assert run.counts["backward/attention"] == run.counts["backward/mlp"] == 6
    assert run.counts["backward/norm"] == 12
    step = [name for name in run.sequence() if name.startswith("backward/")][:8]
    assert step == ["backward/mlp", "backward/norm", "backward/attention", "backward/norm"] * 2


def test_an_evaluation_is_not_split(tmp_path: Path) -> None:
    net = Net()
    with watched(tmp_path, net, modules=True) as run, torch.no_grad():
        net(torch.randn(2, 5, 8))
    assert run.sequence() == ["startup", "no_grad", "startup"]


def test_recomputation_stays_recomputation(tmp_path: Path) -> None:
    net = Net(saves=True)
    with watched(tmp_path, net, modules=True) as run:
        train(net)
    assert run.steps == 3 and run.counts["recompute"] == 6
    assert run.counts["forward/attention"] == 6


@pytest.mark.parametrize("saves", [False, True])
def test_nothing_changes_to_the_last_bit(saves: bool, tmp_path: Path) -> None:
    def trained(watch: bool) -> tuple[list[float], dict[str, Any]]:
        torch.manual_seed(0)
        net = Net(saves=saves)
        if not watch:
            return train(net), net.state_dict()
        with watched(tmp_path, net, modules=True):
            return train(net), net.state_dict()

    (losses, weights), (others, theirs) = trained(False), trained(True)
    assert losses == others
    assert all(torch.equal(value, theirs[name]) for name, value in weights.items())


def test_nothing_is_left_on_the_model(tmp_path: Path) -> None:
    net = Net()
    with watched(tmp_path, net, modules=True) as run:
        train(net, 1)
        twin = pickle.loads(pickle.dumps(net))
        other = copy.deepcopy(net)
        train(other, 1)
        train(twin, 1)
    assert all(type(m).__call__ is nn.Module.__call__ for m in net.modules())
    assert run.engine.warnings == []


def test_one_that_raises_inside_a_module(tmp_path: Path) -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = nn.Sequential(nn.Linear(8, 8))
            self.fails = True

        def forward(self, x: Any) -> Any:
            return self.mlp(x[0] if self.fails else x)

    net = Breaks()
    with watched(tmp_path, net, modules=True) as run:
        with pytest.raises(TypeError):
            net(3)
        net.fails = False
        train(net)
    assert run.steps == 3 and run.counts["forward/mlp"] == 3


def test_compiled_models_are_left_alone(tmp_path: Path) -> None:
    net = torch.compile(Net(), backend="eager", fullgraph=True)
    with watched(tmp_path, net, modules=True) as run:
        train(net)
    assert run.steps == 3 and run.counts["forward"] >= 3
