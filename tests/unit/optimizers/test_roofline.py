"""Which part of a step waits for memory, on operations of known intensity."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from optimizers.analysis.flops import peak  # noqa: E402
from optimizers.analysis.roofline import memory_bound  # noqa: E402
from optimizers.plan import Plan, Precision  # noqa: E402
from probe.instrument.roofline.ridge import Ridge, ridge  # noqa: E402
from probe.instrument.roofline.step_classifier import is_elementwise  # noqa: E402

EVEN = Ridge(1e12, 1e11)  # ten operations a byte


def shares(model, sample, size=64, plan=None, rate=EVEN):
    return memory_bound(model, lambda net, x: net(x).sum(), sample, size, plan or Plan(), rate)


def test_a_large_product_computes_and_additions_wait():
    large = nn.Linear(4096, 4096, bias=False)
    assert shares(large, torch.zeros(1, 4096), 4096)["forward"] < 0.05
    adds = nn.Sequential(nn.LayerNorm(4096), nn.ReLU(), nn.Tanh())
    assert shares(adds, torch.zeros(1, 4096)) == {"forward": 1.0, "backward": 1.0}


def test_the_closed_form_of_one_product():
    """x (n, k) · W (k, m): 2nkm operations, 4(nk + km + nm) bytes; the sum reads 4nm more."""
    n, k, m = 512, 256, 128
    placed = shares(nn.Linear(k, m, bias=False), torch.zeros(1, k), n)
    product = max(2 * n * k * m / 1e12, 4 * (n * k + k * m + n * m) / 1e11)
    summed = (4 * n * m + 4) / 1e11
    bound = summed + (product if 4 * (n * k + k * m + n * m) / 1e11 > 2 * n * k * m / 1e12 else 0)
    assert placed["forward"] == pytest.approx(bound / (product + summed), rel=1e-6)


def test_a_larger_batch_waits_less():
    model = nn.Linear(1024, 1024, bias=False)
    small, large = (shares(model, torch.zeros(1, 1024), size)["forward"] for size in (1, 4096))
    assert small > 0.95 > large


def test_half_precision_moves_half_of_a_product():
    model, plan = nn.Linear(64, 64), Plan(precision=Precision("autocast", torch.bfloat16))
    rate = Ridge(1e12, 5e10)  # a full product waits, a half one computes
    full = shares(model, torch.zeros(1, 64), 256, rate=rate)["forward"]
    half = shares(model, torch.zeros(1, 64), 256, plan, rate=rate)["forward"]
    assert full == 1.0 and half < 0.5


def test_a_model_that_looks_at_values_is_computed():
    class Looks(nn.Linear):
        def forward(self, x):
            return super().forward(x if bool((x == x).all()) else -x)

    model = Looks(32, 32)
    before = [p.clone() for p in model.parameters()]
    assert set(shares(model, torch.zeros(1, 32))) == {"forward", "backward"}
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


def test_what_cannot_be_counted_is_none():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    assert shares(Fails(), torch.zeros(1, 4)) is None


@pytest.mark.parametrize(("per_s", "largest"), [(1e9, 256), (1e11, 1024)])
def test_peaks_of_a_slow_half_precision_are_measured_in_a_moment(per_s, largest, monkeypatch):
    """A CPU without bf16 does 1e9 operations a second: 2 s for one product of 1024."""
    now, sides = [0.0], []

    def clock():
        now[0] += 1e-6
        return now[0]

    def product(a, b):
        sides.append(len(a))
        now[0] += 2 * len(a) ** 3 / per_s
        return a

    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr(torch, "mm", product)
    assert ridge("cpu", torch.bfloat16).flops_per_s == pytest.approx(per_s, rel=0.1)
    assert peak("cpu", torch.bfloat16).per_s == pytest.approx(per_s, rel=0.1)
    assert now[0] < 1 and max(sides) == largest


def test_the_ridge_is_measured():
    peak_rates = ridge("cpu", torch.float32)
    assert 1e9 < peak_rates.flops_per_s < 1e15 and 1e8 < peak_rates.bytes_per_s < 1e13


def test_elementwise_optimizers():
    weights = [nn.Parameter(torch.zeros(2))]
    assert is_elementwise(torch.optim.AdamW(weights))
    assert not is_elementwise(torch.optim.LBFGS(weights)) and not is_elementwise(object())
