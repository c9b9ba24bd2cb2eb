"""Stacks that train to their target, on one rank and on two; those that are refused."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack, Trainer  # noqa: E402
from optimizers.errors import TechniqueRefused  # noqa: E402
from optimizers.plan import Plan  # noqa: E402
from optimizers.stack import discover, settings  # noqa: E402
from optimizers.techniques.channels_last import ChannelsLast  # noqa: E402
from optimizers.techniques.clipping import Clipping  # noqa: E402
from optimizers.techniques.compile import Compile  # noqa: E402
from optimizers.techniques.fused import Fused  # noqa: E402
from optimizers.techniques.loader import Loader  # noqa: E402
from optimizers.techniques.precision import MixedPrecision  # noqa: E402
from optimizers.techniques.schedule import WarmupCosine  # noqa: E402
from optimizers.techniques.tf32 import Tf32  # noqa: E402
from tests.fakes.selection import one_in  # noqa: E402
from tests.unit.optimizers.models import loss, samples, stacked  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
DDP_AND_ZERO = ["ddp", *(pytest.param(stage, marks=pytest.mark.full) for stage in "12")]
ONE_RANK = ("accumulation", "precision", "schedule", "checkpointing")
SUBSETS = [
    ",".join(names) or "baseline"
    for count in range(5)
    for names in itertools.combinations(ONE_RANK, count)
]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("PROBE_DIR", str(tmp_path / "runs"))
    # These models are small enough for bf16 on a CPU that has none.
    monkeypatch.setattr("optimizers.techniques.precision.cpu_has_bf16", lambda: True)
    yield
    torch.set_num_threads(before)


def two_ranks(*arguments: str, seconds: int = 240) -> dict:
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.scripts.forked_ranks",
            "2",
            str(ROOT / "tests/scripts/rank_tasks.py"),
            *arguments,
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if "FOUND " in line]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[-1].partition("FOUND ")[2])


def train(stack: Stack):
    held = samples(1536).tensors
    held = held[0][1024:], held[1][1024:]

    def evaluate(model):
        return {"accuracy": (model(held[0]).float().argmax(1) == held[1]).float().mean().item()}

    return Trainer(
        stacked(),
        samples(1024),
        loss,
        stack=stack,
        samples=20_000,
        batch_size=32,
        lr=3e-3,
        evaluate=evaluate,
        eval_every=1024,
        target="accuracy>=0.8",
        quiet=True,
    ).fit()


@pytest.mark.parametrize("names", one_in(5, SUBSETS, always=SUBSETS[-1:]))
def test_every_subset_reaches_the_target_on_one_rank(names):
    result = train(Stack.of(names))
    assert result.reached and result.metrics["accuracy"] >= 0.8
    samples_then, seconds_then = result.to_target
    assert 0 < samples_then < result.samples and 0 < seconds_then < result.seconds


@pytest.mark.parametrize(
    "technique",
    [
        Fused(),
        Loader(workers=1),
        ChannelsLast(),
        MixedPrecision("bf16", "master"),
        MixedPrecision("fp16"),
        MixedPrecision("fp16", "master"),
        Clipping(0.5),
        Tf32(),
        pytest.param(Compile(), marks=pytest.mark.full),  # a minute of the C++ compiler
    ],
    ids=settings,
)
def test_every_other_technique_trains_on_one_rank(technique):
    if technique.name == "compile" and shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler on a CPU: apt-get install g++")
    assert train(Stack([technique])).reached


def test_a_technique_that_lacks_what_it_requires_is_refused_and_named():
    class Needs(Fused):
        name = "needs"
        requires = frozenset({"schedule"})

    with pytest.raises(TechniqueRefused, match="needs needs schedule"):
        Stack([Needs()])
    assert [t.name for t in Stack([Needs(), WarmupCosine()])] == ["schedule", "needs"]


@pytest.mark.full
def test_every_subset_with_zero_2_reaches_the_target_on_two_ranks():
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    some = SUBSETS if os.environ.get("PROVE") else [SUBSETS[0], SUBSETS[-1]]
    stacks = ["zero" if names == "baseline" else f"{names},zero" for names in some]
    results = two_ranks("train", *stacks)
    assert set(results) == set(stacks)
    for stack, result in results.items():
        assert result["reached"] and result["stage"] == 2 and result["ranks_agree"], (stack, result)


def test_ranks_end_together_whatever_each_of_them_sees():
    results = two_ranks("disagree")
    assert results == {"ended": "target", "samples": 512, "evaluations": 2, "timed": "time"}


@pytest.mark.full
def test_ranks_agree_on_the_k_that_was_measured():
    results = two_ranks("train", "accumulation(k=optimal)")["accumulation(k=optimal)"]
    assert results["reached"] and results["ranks_agree"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("stage", "options"), [(1, ""), (3, ""), (2, ",offload=optimizer"), (3, ",offload=all")]
)
def test_other_stages_and_offload_train_too(stage, options):
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    stack = f"accumulation(k=2),zero(stage={stage}{options})"
    trained = two_ranks("train", stack)[stack]
    assert trained["reached"] and trained["stage"] == stage


@pytest.mark.parametrize(
    "stack",
    [
        "accumulation,schedule",
        pytest.param("topk", marks=pytest.mark.full),
        pytest.param("powersgd", marks=pytest.mark.full),
        pytest.param("local_sgd", marks=pytest.mark.full),
        pytest.param("zero,schedule", marks=pytest.mark.full),
    ],
)
def test_two_ranks_go_on_from_a_snapshot_as_if_nothing_had_been(stack, tmp_path):
    if "zero" in stack:
        pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    assert two_ranks("resume", stack, str(tmp_path))["off"] == 0.0


@pytest.mark.full
def test_the_papers_stack_trains_on_two_ranks_with_a_k_that_they_agree_on():
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    results = two_ranks("train", "paper")["paper"]
    assert results["reached"] and results["stage"] == 2 and results["ranks_agree"]


@pytest.mark.full
def test_a_batch_norm_trains_with_half_precision_weights_under_zero():
    pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    norms = two_ranks("norms")
    assert norms["steps"] == 1
    assert norms["running"] == pytest.approx(norms["truth"], rel=0.02, abs=2e-4)  # 8 bits


def stated_share(name: str, steps: int) -> tuple[float, float]:
    """Between which parts of the gradients' bytes a technique sends in so many steps."""
    exact = 10 / steps  # onebit's steps before it begins
    averages = len(range(10, steps, 4))
    return {
        "topk": (0.95 * 0.05 * 2, 1.05 * 0.05 * 2),  # 4 bytes of place with each 4
        "compression": (0.5, 0.5),
        "powersgd": (0.0, 0.5),
        "int8": (0.9 * 0.25, 1.1 * 0.25),  # a scale beside every 256, or fewer
        "onebit": (exact + (1 - exact) / 32, exact + (1 - exact) / 16),
        "local_sgd": ((10 + averages) / steps, (10 + averages) / steps),
    }[name]


@pytest.mark.parametrize(
    "names",
    [
        ("topk", "local_sgd", "overlap"),
        pytest.param(("powersgd", "compression", "int8", "onebit"), marks=pytest.mark.full),
    ],
    ids=",".join,
)
def test_compressed_gradients_send_what_is_stated_and_still_train(names):
    results = two_ranks("train", *names)
    assert all(result["reached"] for result in results.values()), results
    if "overlap" in results:
        assert results.pop("overlap")["whole"] == 0, "no hook of ours is there to count"
    for name, result in results.items():
        least, most = stated_share(name, result["samples"] // 32)
        assert least - 1e-9 <= result["sent"] / result["whole"] <= most + 1e-9, name


@pytest.mark.parametrize("how", DDP_AND_ZERO)
def test_the_variance_is_exact_over_all_micro_batches_of_all_ranks(how):
    if how != "ddp":
        pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    results = two_ranks("variance", how)
    assert results["measured"] == pytest.approx(results["truth"], rel=1e-6)


@pytest.mark.parametrize("how", DDP_AND_ZERO)
def test_a_variable_k_gives_the_weights_of_one_big_batch(how):
    if how != "ddp":
        pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    assert two_ranks("variable", how)["off"] <= 1e-6


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ("topk,powersgd", "topk does not go with powersgd"),
        ("zero,compression", "does not go with"),
        ("zero,fused", "does not go with zero"),
        ("compile,zero", "compile does not go with zero"),
        ("accumulation,accumulation", "twice"),
        ("acumulation", "no technique is called 'acumulation'"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(names, line):
    with pytest.raises(TechniqueRefused) as refused:
        Stack.of(names)
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_a_batch_that_cannot_be_split_is_refused():
    from optimizers.techniques.accumulation import GradientAccumulation

    with pytest.raises(TechniqueRefused, match="lower k or raise batch_size"):
        Stack([GradientAccumulation(k=8)]).plan(Plan(batch_size=4))


def test_a_third_partys_technique_joins_by_entry_point(tmp_path, monkeypatch):
    (tmp_path / "smooth_labels.py").write_text(
        "from dataclasses import dataclass, replace\n"
        "from optimizers.technique import Base\n"
        "@dataclass(frozen=True)\n"
        "class Halved(Base):\n"
        "    name = 'halved'\n"
        "    after = frozenset({'schedule'})\n"
        "    def plan(self, plan):\n"
        "        return replace(plan, lr=plan.lr / 2)\n"
        "    def predicts(self, plan):\n"
        "        return 'half the rate'\n"
    )
    about = tmp_path / "smooth_labels-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: smooth-labels\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[optimizers.techniques]\nhalved = smooth_labels:Halved\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "halved" in discover()
    stack = Stack.of("halved,schedule")
    assert stack.plan(Plan(lr=1.0)).lr == 0.5
    assert "half the rate" in stack.table(Plan(batch_size=8))
    assert train(stack).reached
