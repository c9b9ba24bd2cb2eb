"""Muon's step against singular values in float64, its rule of hidden matrices, and its rates."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if not hasattr(torch.optim, "Muon"):
    pytest.skip("torch.optim.Muon is of torch 2.9", allow_module_level=True)

from torch import nn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.techniques.muon import Muon, hidden_matrices  # noqa: E402
from optimizers.training.data import Order  # noqa: E402
from tests.fakes.refused_techniques import refusal  # noqa: E402

from .models import loss, samples, stacked  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def train(model, stack, **more):
    options = {"samples": 32 * 20, "batch_size": 32, "lr": 0.01, "quiet": True, "seed": 3}
    trainer = Trainer(
        model, samples(256), loss, stack=Stack.of(stack), classify=False, **options | more
    )
    trainer.fit()
    return trainer


def hidden(model):
    """Names of the matrices that are stepped by Muon."""
    chosen = hidden_matrices(model)
    return {name for name, p in model.named_parameters() if id(p) in chosen}


@pytest.mark.parametrize(
    ("stack", "size"),
    [
        ("muon", lambda rows, columns: 0.01 * 0.2 * math.sqrt(max(rows, columns))),
        ("muon(lr=0.02)", lambda rows, columns: 0.02 * math.sqrt(max(1, rows / columns))),
    ],
)
def test_a_step_is_the_polynomial_of_the_gradients_singular_values(stack, size, monkeypatch):
    """U p(p(p(p(p(Σ/‖Σ‖))))) Vᵀ; torch computes it by products alone.

    In bf16, whose rounding is as large as the smallest singular values; here in float64.
    """
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.double)
    model, before = stacked(), stacked()
    train(model, f"{stack.rstrip(')')}{',' if '(' in stack else '('}weight_decay=0.5)", samples=32)
    order = iter(Order(256, 32, rank=0, world=1, seed=3))
    loss(before, samples(256)[next(order)]).backward()
    adamw = torch.optim.AdamW(before.parameters(), lr=0.01, betas=(0.9, 0.999), weight_decay=0.01)
    start = {name: p.detach().double().numpy().copy() for name, p in before.named_parameters()}
    adamw.step()
    names = hidden(before)
    assert len(names) == 8, "two matrices in each of four blocks"
    for (name, p), (_, other) in zip(
        model.named_parameters(), before.named_parameters(), strict=True
    ):
        if name not in names:
            assert torch.equal(p, other), "the user's optimizer has stepped the rest"
            continue
        # momentum 0.95 from 0, with Nesterov: 0.05 g, then g moved 0.95 of the way to it
        g = other.grad.double().numpy()
        direction = g + 0.95 * (0.05 * g - g)
        u, s, v = np.linalg.svd(direction, full_matrices=False)
        s = s / np.sqrt((s**2).sum())
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        rate = 0.01 if stack == "muon" else 0.02
        expected = -rate * 0.5 * start[name] - size(*g.shape) * (u * s) @ v
        step = p.detach().double().numpy() - start[name]
        off = np.linalg.norm(step - expected) / np.linalg.norm(expected)
        assert off < 1e-4, name


def test_many_steps_are_those_of_two_optimizers_by_hand():
    """Bit for bit, with a schedule, and clipped over the parameters of both."""
    model, by_hand = stacked(), stacked()
    train(model, "muon(lr=0.02,momentum=0.9),schedule(shape=linear,warmup=0),clipping(norm=0.5)")
    chosen = hidden_matrices(by_hand)
    muon = torch.optim.Muon(
        [p for p in by_hand.parameters() if id(p) in chosen], lr=0.02, momentum=0.9
    )
    adamw = torch.optim.AdamW(
        [p for p in by_hand.parameters() if id(p) not in chosen], lr=0.01, weight_decay=0.01
    )
    order = iter(Order(256, 32, rank=0, world=1, seed=3))
    for step in range(20):
        lr = 0.01 * (0.1 + 0.9 * (1 - (step + 1) / 20))
        adamw.param_groups[0]["lr"], muon.param_groups[0]["lr"] = lr, lr * (0.02 / 0.01)
        loss(by_hand, samples(256)[next(order)]).backward()
        nn.utils.clip_grad_norm_(by_hand.parameters(), 0.5)
        for optimizer in (muon, adamw):
            optimizer.step()
            optimizer.zero_grad()
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        assert torch.equal(ours, theirs)


class Tied(nn.Module):
    """A language model whose parts have names that say nothing."""

    def __init__(self, tied):
        super().__init__()
        self.a, self.b = nn.Embedding(11, 8), nn.Embedding(4, 8)
        self.c = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.d = nn.MultiheadAttention(8, 2)
        self.e = nn.Linear(8, 11, bias=False)
        if tied:
            self.e.weight = self.a.weight
        self.f = nn.LayerNorm(8)


class TiedInside(nn.Module):
    """The matrix that is tied with the embedding is not in the last layer."""

    def __init__(self):
        super().__init__()
        self.a, self.head = nn.Embedding(8, 8), nn.Linear(8, 8, bias=False)
        self.head.weight = self.a.weight
        self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 3)


def test_hidden_matrices_are_found_without_names():
    attention = {"d.out_proj.weight"}  # its packed projections are not the weight of a layer
    assert hidden(Tied(tied=False)) == {"c.0.weight", "c.1.weight"} | attention
    assert hidden(Tied(tied=True)) == {"c.0.weight", "c.1.weight"} | attention
    assert hidden(TiedInside()) == {"b.weight"}
    convolutions = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(4, 4))
    assert hidden(convolutions) == set()
    assert hidden(nn.Sequential(convolutions, nn.LayerNorm(4), nn.Linear(4, 2))) == {"0.2.weight"}
    assert hidden(nn.Linear(2, 2)) == hidden(nn.LayerNorm(2)) == set()


def test_a_gpt2_of_transformers_has_hidden_matrices():
    """Its layers are not nn.Linear; its last one is tied with the embedding."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=32, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)
    parts = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    assert hidden(model) == {
        f"transformer.h.{layer}.{part}.weight" for layer in range(2) for part in parts
    }


def test_tables_that_multiply_nothing_are_no_hidden_matrices():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(4, 4) for _ in range(3))
            self.table = nn.Parameter(torch.zeros(9, 4))  # as of relative places

    assert hidden(nn.Sequential(nn.Linear(4, 4), Shifted(), nn.Linear(4, 4))) == {
        "1.first.weight",
        "1.middle.weight",
        "1.last.weight",
    }


def test_a_model_without_hidden_matrices_is_refused_in_a_line():
    with pytest.raises(TechniqueRefused, match="muon: the model has no hidden matrix") as refused:
        train(nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 5)), "muon")
    assert "\n" not in str(refused.value)


def test_weights_that_are_not_trained_stay_as_they_are():
    model = stacked()
    model[1][0].up.weight.requires_grad = False
    before = copy.deepcopy(model)
    train(model, "muon")
    assert torch.equal(model[1][0].up.weight, before[1][0].up.weight)
    assert not torch.equal(model[1][1].up.weight, before[1][1].up.weight)


def test_half_precision_weights_are_stepped_by_their_copies():
    trainer = train(stacked(), "muon,precision(dtype=bf16,mode=master)")
    own = trainer.engine.optimizer.parts[1]
    assert [p.dtype for p in own.param_groups[0]["params"]] == [torch.float32] * 8
    names = hidden(stacked())
    shapes = [p.shape for name, p in stacked().named_parameters() if name in names]
    assert [p.shape for p in own.param_groups[0]["params"]] == shapes


def test_its_state_is_counted_and_its_steps_are_the_trainings():
    trainer = train(stacked(), "muon")
    assert trainer.report().run.steps == 20
    matrices = sum(p.nbytes for p in stacked()[1].parameters() if p.ndim == 2)
    others = sum(p.nbytes for p in stacked().parameters()) - matrices
    counts = 4 * (len(list(stacked().parameters())) - 8)  # of steps, AdamW's for each
    assert trainer._memory["optimizer"] == matrices + 2 * others + counts


@pytest.mark.parametrize(
    ("technique", "plan", "line"),
    [
        (Muon(lr=0.0), Plan(), "lr=0.0: a rate above 0"),
        (Muon(momentum=1.0), Plan(), "momentum=1.0"),
        (Muon(weight_decay=-0.1), Plan(), "weight_decay=-0.1"),
        (Muon(lr=0.02), Plan(lr=0.0), "needs a rate of the trainer above 0"),
    ],
)
def test_options_that_cannot_be_are_refused_in_a_line(technique, plan, line):
    assert line in refusal(technique, plan)


def test_an_older_torch_and_zero_are_refused_in_a_line(monkeypatch):
    with pytest.raises(TechniqueRefused, match="muon does not go with zero"):
        Stack.of("muon,zero")
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(TechniqueRefused, match=r"muon needs torch 2\.9 or later"):
        Muon().plan(Plan())
