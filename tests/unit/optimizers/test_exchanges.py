"""Messages of the techniques that replace DDP's all-reduce, in one process; what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack  # noqa: E402
from optimizers.comm_bytes import Wire  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.stack import discover  # noqa: E402
from optimizers.technique import EXCHANGES, Technique  # noqa: E402
from optimizers.techniques.accumulation import GradientAccumulation  # noqa: E402
from optimizers.techniques.clipping import Clipping  # noqa: E402
from optimizers.techniques.hierarchical import Hierarchical  # noqa: E402
from optimizers.techniques.int8 import Bytes, Int8  # noqa: E402
from optimizers.techniques.local_sgd import LocalSGD  # noqa: E402
from optimizers.techniques.onebit import OneBit, Signs  # noqa: E402
from optimizers.techniques.powersgd import PowerSGD  # noqa: E402
from optimizers.techniques.precision import MixedPrecision  # noqa: E402
from optimizers.techniques.topk import Largest, TopK  # noqa: E402

CODECS = [Bytes(16), Signs(16), Largest(0.1)]
COUNTS = [1, 7, 8, 16, 17, 100, 129]
KEEPING = [TopK(), PowerSGD(), Int8(), OneBit(), LocalSGD()]


def numbers(count: int) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(count))


def decoded(codec, message, count: int) -> torch.Tensor:
    out = torch.zeros(count)
    codec.add(message, out, 1.0)
    return out


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_a_message_has_the_length_that_is_said_and_shrinks_what_is_left(codec, count):
    given = numbers(count)
    message = codec.encode(given)
    assert message.dtype == torch.uint8 and len(message) == codec.length(count)
    left = given - decoded(codec, message, count)
    assert left.norm() < given.norm()  # a contraction, which error feedback needs


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_zeros_arrive_as_zeros(codec):
    for count in COUNTS:
        message = codec.encode(torch.zeros(count))
        assert torch.equal(decoded(codec, message, count), torch.zeros(count))


@pytest.mark.parametrize("count", COUNTS)
def test_signs_are_packed_eight_to_a_byte(count):
    given = numbers(count)
    bits = Signs(16).encode(given).numpy()[4 * -(-count // 16) :]
    assert np.array_equal(bits, np.packbits(given.numpy() >= 0, bitorder="little"))


def test_the_share_of_topk_falls_from_a_quarter_by_equal_factors():
    shares = [TopK(share=0.001, warmup_steps=4).share_of(step) for step in range(6)]
    assert shares[0] == 0.25 and shares[4:] == [0.001, 0.001]
    factors = [b / a for a, b in itertools.pairwise(shares[:5])]
    assert factors == pytest.approx([(0.001 / 0.25) ** 0.25] * 4)


@pytest.mark.parametrize("technique", KEEPING, ids=lambda technique: technique.name)
def test_what_keeps_something_of_earlier_steps_refuses_a_scaled_loss(technique):
    given = Plan(world=4, batch_size=64, device="cuda")
    with pytest.raises(TechniqueRefused, match="use bf16"):
        Stack([technique, MixedPrecision("fp16")]).plan(given)
    assert Stack([technique]).plan(given).compression is not None


@pytest.mark.parametrize(
    ("technique", "line"),
    [
        (TopK(share=0), "above 0, up to 1"),
        (TopK(momentum=1.0), "from 0 to below 1"),
        (TopK(clip=0.0), "a norm above 0"),
        (TopK(warmup_steps=-1), "0 or more"),
        (TopK(share=0.3, warmup_steps=5), "below 0.25"),
        (PowerSGD(rank=0), "rank=0 ≥ 1"),
        (Int8(block=0), "at least 1"),
        (OneBit(start=-1), "start=-1 ≥ 0"),
        (Hierarchical(group=3), "set group to a divisor"),
        (Hierarchical(group=0), "set group to a divisor"),
        (LocalSGD(period=1), "period=1 ≥ 2"),
        (LocalSGD(group=4), "set group to a smaller divisor"),
        (LocalSGD(group=0), "at least 1"),
    ],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(technique, line):
    with pytest.raises(TechniqueRefused, match=line) as refused:
        technique.plan(Plan(world=4, batch_size=64))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("optimizer", "refused"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), False),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), True),
        (lambda p: torch.optim.AdamW(p, lr=0.1), True),
    ],
    ids=["SGD", "momentum", "AdamW"],
)
def test_momentum_is_not_applied_twice(optimizer, refused):
    model = torch.nn.Linear(2, 2)
    for momentum, raises in ((0.0, False), (0.9, refused)):
        make = TopK(momentum=momentum).plan(Plan(world=2, batch_size=2)).compression
        communication = make(model, Wire())
        if raises:
            with pytest.raises(TechniqueRefused, match="SGD without momentum"):
                communication.check(optimizer(model.parameters()))
        else:
            communication.check(optimizer(model.parameters()))


def test_local_steps_refuse_a_k_that_ranks_would_not_agree_on():
    given = Plan(world=2, batch_size=64)
    with pytest.raises(TechniqueRefused, match="use a fixed k"):
        Stack([LocalSGD(), GradientAccumulation(adaptive=True)]).plan(given)
    notes = Stack([LocalSGD(), GradientAccumulation(), Clipping()]).plan(given).notes
    assert any("rank 0's weights" in note for note in notes)
    assert any("a group's own gradient" in note for note in notes)


def test_one_tier_is_left_to_ddp(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert Hierarchical().plan(Plan(world=8)).compression is not None
    for plan in (Hierarchical().plan(Plan(world=4)), Hierarchical(1).plan(Plan(world=4))):
        assert plan.compression is None and "left to DDP" in plan.notes[0]


def test_every_exchange_conflicts_with_every_other_and_with_zero_in_both_directions():
    every: dict[str, type[Technique]] = discover()
    for name in EXCHANGES:
        assert every[name].conflicts == EXCHANGES - {name} | {"zero"}
        assert name in every["zero"].conflicts


@pytest.mark.parametrize("name", [*sorted(EXCHANGES), "overlap", "zero"])
def test_what_cannot_change_on_one_rank_is_not_promised(name):
    stack = Stack.of(name)
    assert "nothing" in stack.table(Plan(world=1)).splitlines()[2]
