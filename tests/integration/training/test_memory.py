"""Activation checkpointing: gradients as before, memory less, and as much less as predicted."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys

import pytest

from tests.fakes import processes
from tests.scripts import SCRIPTS

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch import nn  # noqa: E402

from optimizers import Stack  # noqa: E402
from optimizers.analysis.checkpoint_plan import place  # noqa: E402
from optimizers.analysis.memory import saving  # noqa: E402
from optimizers.analysis.segments import METHODS  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.techniques.checkpointing import apply, segments, stacks  # noqa: E402
from tests.unit.optimizers.models import loss, samples, stacked  # noqa: E402

SCRIPT = SCRIPTS / "peak_memory.py"


def peak(every: int) -> dict:
    """-1: none, 0: √L."""
    environment = os.environ | {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "PYTHONPATH": str(SCRIPT.parents[2]),
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(every)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=processes.HUNG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.full
def test_a_transformers_peak_falls_as_predicted_and_its_gradients_do_not_change():
    tried = (0, 1) if os.environ.get("PROVE") else (0,)
    peaks = {every: peak(every) for every in (-1, *tried)}
    for every in tried:
        assert peaks[every]["peak"] <= 0.6 * peaks[-1]["peak"], peaks
        assert peaks[every]["gradients"] == pytest.approx(peaks[-1]["gradients"], rel=1e-6)
    for every, peak_bytes in peaks.items():
        assert peak_bytes["predicted"] == pytest.approx(peak_bytes["peak"], rel=0.15), (
            every,
            peak_bytes,
        )


@pytest.mark.parametrize("every", [None, 1, 3])
def test_gradients_and_dropout_are_those_of_the_plain_model(every):
    plain = stacked(depth=7, dropout=0.3)
    dropped = copy.deepcopy(plain)
    apply(dropped, every)
    batch = samples(32).tensors
    gradients = []
    for model in (plain, dropped):
        torch.manual_seed(3)
        for _ in range(2):
            value = loss(model, batch)
            value.backward()
        gradients.append((value.item(), [p.grad.clone() for p in model.parameters()]))
    assert gradients[0][0] == gradients[1][0]
    for a, b in zip(gradients[0][1], gradients[1][1], strict=True):
        assert torch.allclose(a, b, rtol=1e-6, atol=1e-8)
    assert list(plain.state_dict()) == list(dropped.state_dict())


def test_running_statistics_move_once():
    torch.manual_seed(0)

    def net():
        return nn.Sequential(
            *(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)) for _ in range(4))
        )

    plain = net()
    dropped = net()
    dropped.load_state_dict(plain.state_dict())
    apply(dropped, 2)
    x = torch.randn(4, 3, 8, 8)
    for model in (plain, dropped):
        model(x).sum().backward()
    for name, value in plain.state_dict().items():
        assert torch.equal(value, dropped.state_dict()[name]), name


def test_layers_are_dropped_until_the_activations_fit_the_budget():
    model, batch = stacked(depth=8), samples(64).tensors
    plain = place(model, loss, batch, 1 << 40)
    assert plain.blocks == () and plain.seconds == 0
    loss(model, batch).backward()
    for method in METHODS:
        half = place(model, loss, batch, int(0.6 * plain.bytes), method)
        assert 0 < len(half.blocks) < 8 and half.bytes <= 0.6 * plain.bytes
        dropped = stacked(depth=8)
        for change in Stack([half.technique()]).plan(Plan()).models:
            dropped = change(dropped)
        with saving([*dropped.parameters(), *batch]) as held:
            value = loss(dropped, batch)
        # What forward leaves for backward is the plan's, without the segment that comes back.
        assert held[0] <= half.bytes
        value.backward()
        for a, b in zip(model.parameters(), dropped.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, rtol=1e-6, atol=1e-8)
    with pytest.raises(TechniqueRefused, match="the least possible is"):
        place(stacked(depth=8), loss, batch, 1000)


def test_segments_are_as_long_as_the_root_of_the_depth():
    assert [len(s) for s in segments(16, None)] == [4] * 4
    assert [len(s) for s in segments(7, None)] == [2, 2, 2, 1]
    assert [len(s) for s in segments(5, 1)] == [1] * 5


def test_layers_that_do_not_follow_each_other_are_refused():
    class Skips(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4)) for _ in range(4))

        def forward(self, x):
            for block in self.blocks:
                x = x + block(x)  # what the next block gets is not what this one gave
            return x

    model = Skips()
    apply(model, 2)
    with pytest.raises(TechniqueRefused, match="do not follow each other"):
        model(torch.randn(2, 4))


def test_a_model_without_a_stack_is_refused_by_name():
    with pytest.raises(TechniqueRefused, match="no stack of like layers"):
        stacks(nn.Linear(2, 2))
    with pytest.raises(TechniqueRefused, match="the model has no encoder"):
        stacks(nn.Linear(2, 2), ("encoder",))
