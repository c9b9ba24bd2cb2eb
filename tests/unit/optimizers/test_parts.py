"""Targets, data order, arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.analysis.flops import per_sample  # noqa: E402
from optimizers.errors import DataProblem, TechniqueRefused, UsageError  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.techniques.accumulation import GradientAccumulation, pieces, size  # noqa: E402
from optimizers.techniques.precision import MixedPrecision  # noqa: E402
from optimizers.techniques.zero import Zero, configuration  # noqa: E402
from optimizers.training.data import Batches, Order  # noqa: E402
from optimizers.training.target_progress import Progress, Target  # noqa: E402
from probe.compare.objective import objective  # noqa: E402
from probe.compare.objective.model import State  # noqa: E402
from probe.compare.objective.quantities import limit_of  # noqa: E402
from probe.store.reader import RunReader  # noqa: E402
from tests.fakes import processes  # noqa: E402

from .models import loss, samples, stacked  # noqa: E402


def test_a_target_is_reached_after_two_evaluations_and_dated_where_it_was_crossed():
    progress = Progress(Target.of("accuracy >= 0.9"))
    for at, value in ((100, 0.8), (200, 1.0), (300, 0.85), (400, 0.90), (500, 0.95)):
        assert not progress.reached
        progress.saw({"accuracy": value}, at, at / 10)
    assert progress.reached
    assert progress.first == pytest.approx((400, 40))
    down = Progress(Target.of("loss<=1"))
    for at, value in ((10, 3.0), (20, 0.5), (30, 0.4)):
        down.saw({"loss": value}, at, at)
    assert down.first == pytest.approx((18, 18))


@pytest.mark.parametrize("text", ["accuracy", "accuracy=0.9", "accuracy>=much", ">=0.9"])
def test_what_is_no_target_is_refused(text):
    with pytest.raises(UsageError, match="write for example"):
        Target.of(text)


def test_an_evaluation_without_the_metric_is_refused():
    with pytest.raises(UsageError, match=r"the target is accuracy>=0\.9"):
        Progress(Target.of("accuracy>=0.9")).saw({"loss": 1.0}, 1, 1)


def test_every_epoch_has_every_sample_once_and_its_own_order():
    order = iter(Order(23, 4, rank=0, world=1, seed=3))
    epochs = [[i for _ in range(5) for i in next(order)] for _ in range(2)]
    assert all(len(set(epoch)) == 20 for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_ranks_share_each_batch_and_any_place_can_be_gone_on_from():
    whole = iter(Order(64, 8, rank=0, world=1, seed=0))
    ranks = [iter(Order(64, 8, rank=r, world=2, seed=0)) for r in range(2)]
    batches = [next(whole) for _ in range(12)]
    assert [next(ranks[0]) + next(ranks[1]) for _ in range(12)] == batches
    late = Order(64, 8, rank=0, world=1, seed=0)
    late.consumed = 9 * 8
    assert [next(iter(late))] == [batches[9]]


def test_a_batch_is_cut_in_its_own_shape():
    batch = {"x": torch.arange(10), "pair": (torch.arange(10.0), [torch.ones(10, 2)])}
    parts = pieces(batch, 3)
    assert [size(part) for part in parts] == [4, 3, 3]
    assert torch.equal(torch.cat([part["pair"][1][0] for part in parts]), torch.ones(10, 2))
    assert isinstance(parts[0]["pair"], tuple)


def test_batches_that_ranks_cannot_share_are_refused():
    with pytest.raises(DataProblem, match="make batch_size a multiple"):
        Batches(samples(64), Plan(world=2, batch_size=9), rank=0, seed=0)


def test_operations_are_those_of_the_matrix_products():
    model = nn.Sequential(nn.Linear(10, 20, bias=False), nn.ReLU(), nn.Linear(20, 5, bias=False))
    x, y = torch.randn(7, 10), torch.randint(0, 5, (7,))
    counted = per_sample(model, lambda m, b: nn.functional.cross_entropy(m(b[0]), b[1]), (x, y))
    forward = 2 * (10 * 20 + 20 * 5)
    # The first layer's input needs no gradient.
    assert counted == forward + 2 * (10 * 20) + 2 * 2 * (20 * 5)
    assert all(p.grad is None and p.device.type == "cpu" for p in model.parameters())


def test_attention_is_counted():
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
    counted = per_sample(layer, lambda m, x: m(x).sum(), torch.randn(2, 16, 32))
    products = 2 * 16 * (4 * 32 * 32 + 2 * 32 * 64)  # projections and the two of the MLP
    attention = 2 * 2 * 16 * 16 * 32
    no_input = 2 * 16 * 3 * 32 * 32  # nobody wants the gradient of what goes in
    assert counted == 3 * (products + attention) - no_input


def test_a_model_that_looks_at_values_is_run_once_and_left_as_it_was():
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batch = samples(8).tensors

    def looking(net, given):
        value = loss(net, given)
        assert value.item() == value.item()  # meta tensors have no values
        return value

    assert per_sample(model, looking, batch) == per_sample(model, loss, batch)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(p.grad is None for p in model.parameters())


def test_attention_counts_alike_on_meta_and_on_a_cpu():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x):
            y = x * self.scale
            return nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)

    def looking(net, x):
        value = net(x).sum()
        assert value.item() == value.item()
        return value

    x = torch.randn(2, 4, 16, 8)
    one_way = 2 * 2 * 4 * 16 * 16 * 8  # two products; a causal mask is not discounted
    assert per_sample(Attention(), lambda net, b: net(b).sum(), x) == 3 * one_way
    assert per_sample(Attention(), looking, x) == 3 * one_way


def test_the_objective_reads_what_the_trainer_logs(tmp_path, monkeypatch):
    """Under adaptive accumulation the gradient's norm and variance, else neither."""
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    torch.set_num_threads(1)
    paths = []
    for stack in (Stack([GradientAccumulation(k=2, adaptive=True)]), Stack.baseline()):
        trainer = Trainer(
            stacked(),
            samples(256),
            loss,
            stack=stack,
            samples=2048,
            batch_size=32,
            evaluate=lambda m: {"loss": 1.5},
            quiet=True,
            lr=1e-3,
        )
        paths.append(trainer.fit().run)
        assert processes.status_at_end(paths[-1]) == "finished"
    weights = {"time": 0.5, "memory": 0.5}
    limits = [limit_of(text, upper=True) for text in ("loss=1", "gradient_norm=1e-9")]
    adaptive, plain = objective([str(path) for path in paths], weights, limits).configurations
    assert adaptive.term("memory").value > 50e6
    logged = RunReader(paths[0]).values()
    norm, variance, k = (logged[name][1][-20:] for name in ("grad_norm", "grad_variance", "k"))
    finite = np.isfinite(variance)
    squares = norm[finite] ** 2 - variance[finite] / k[finite]
    assert adaptive.term("gradient_norm").value == pytest.approx(max(squares.mean(), 0) ** 0.5)
    assert adaptive.term("gradient_variance").value == pytest.approx(variance[finite].mean())
    assert plain.term("gradient_norm").value is None
    # That of the evaluation, not of the steps; one run decides nothing.
    assert [each.value for each in (adaptive.constraints[0], plain.constraints[0])] == [1.5, 1.5]
    assert {each.state for each in (*adaptive.constraints, *plain.constraints)} == {State.UNSAID}
    ratios = [plain.term(name).value / adaptive.term(name).value for name in weights]
    assert plain.score == pytest.approx(0.5 * sum(ratios))
    with pytest.raises(UsageError, match="energy has a weight, but no meter measured it"):
        objective([str(path) for path in paths], {"energy": 1.0})


@pytest.mark.parametrize("bf16", [True, False])
def test_the_paper_trains_in_bf16_only_where_the_cpu_has_it(bf16, monkeypatch):
    """One without it takes many times as long, and the training seems to hang."""
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: bf16)
    dtype = torch.bfloat16 if bf16 else torch.float32
    for stack in (Stack.paper(), Stack.of("precision"), Stack([MixedPrecision(mode="master")])):
        plan = stack.plan(Plan(batch_size=32))
        assert plan.precision.dtype is dtype
        assert any("has no bf16" in note for note in plan.notes) != bf16
        row = next(
            line
            for line in stack.table(Plan(batch_size=32)).splitlines()
            if line.strip().startswith("precision")
        )
        assert row.endswith("nothing here") != bf16
    plan = Stack([MixedPrecision("bf16")]).plan(Plan(batch_size=32))  # an explicit dtype is kept
    assert plan.precision.dtype is torch.bfloat16
    assert any("has no bf16" in note for note in plan.notes) != bf16


def test_masters_keep_what_bf16_weights_cannot():
    """Steps far below bf16's resolution add up in the copies."""
    from optimizers.techniques.precision import Masters

    weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    masters = Masters([weight], lambda copies: torch.optim.SGD(copies, lr=1e-4))
    for _ in range(100):
        weight.grad = torch.ones_like(weight)
        masters.collect()
        masters.optimizer.step()
        masters.optimizer.zero_grad()
    assert torch.allclose(masters.copies[0], torch.full((4,), 0.99), atol=1e-6)
    assert torch.equal(weight.data, torch.full((4,), 0.99).bfloat16())


def test_offload_is_deepspeeds_and_refused_where_there_is_nothing_to_move(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    gpu = Plan(device="cuda", world=2, batch_size=8)
    plan = Zero(3, offload="all").plan(gpu)
    moved = configuration(plan, 4)["zero_optimization"]
    assert moved == {
        "stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}
    }  # fmt: skip
    assert configuration(Zero(2).plan(gpu), 4)["zero_optimization"] == {"stage": 2}
    with pytest.raises(TechniqueRefused, match="stage=3"):
        Zero(2, offload="all").plan(gpu)
    with pytest.raises(TechniqueRefused, match="optimizer or all"):
        Zero(2, offload="disk").plan(gpu)
