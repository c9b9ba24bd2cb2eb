"""Stacks as texts: what is typed, what a name says, what is refused; the paper's own stack."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from optimizers import Stack  # noqa: E402
from optimizers.ablation.design import Design  # noqa: E402
from optimizers.errors import TechniqueRefused, UsageError  # noqa: E402
from optimizers.plan import Accumulation, Plan, Schedule  # noqa: E402
from optimizers.stack_text import make, read, split, write  # noqa: E402
from optimizers.technique import Base  # noqa: E402
from optimizers.techniques.accumulation import GradientAccumulation, KPolicy  # noqa: E402
from optimizers.techniques.checkpointing import Checkpointing  # noqa: E402
from optimizers.techniques.clipping import Clipping  # noqa: E402
from optimizers.techniques.compile import Compile  # noqa: E402
from optimizers.techniques.precision import MixedPrecision  # noqa: E402
from optimizers.techniques.schedule import WarmupCosine  # noqa: E402
from optimizers.techniques.zero import Zero  # noqa: E402

SAFE = set(string.ascii_letters + string.digits + "._-:=+/%")  # to a shell and in a list of runs

WRITTEN = {
    "precision(dtype=fp16,mode=master)": [MixedPrecision("fp16", "master")],
    "precision": [MixedPrecision()],
    "precision(dtype=none)": [MixedPrecision()],
    "checkpointing(every=2)": [Checkpointing(every=2)],
    "checkpointing(blocks=1.0;1.3)": [Checkpointing(blocks=("1.0", "1.3"))],
    "checkpointing(layers=a/b/c)": [Checkpointing(layers=("a", "b", "c"))],
    "accumulation(k=4..8)": [GradientAccumulation(k=4, k_min=4, k_max=8, adaptive=True)],
    "accumulation(k=6,adaptive=true,k_max=8)": [GradientAccumulation(k=6, adaptive=True, k_max=8)],
    "accumulation(k=2,mode=grow,target=1e-20)": [
        GradientAccumulation(k=2, mode="grow", target=1e-20)
    ],
    "accumulation(target=1e+20)": [GradientAccumulation(target=1e20)],
    "schedule(scaling=sqrt), zero(stage=3)": [WarmupCosine(scaling="sqrt"), Zero(3)],
    "clipping(norm=0.5)+compile(mode=a%2Cb%3A%20c)": [Clipping(0.5), Compile("a,b: c")],
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_text_a_stack_and_its_name_are_the_same(text):
    stack = Stack.of(text)
    assert set(stack.techniques) == set(WRITTEN[text])
    assert set(Stack.of(stack.name).techniques) == set(WRITTEN[text])
    assert Stack.of(stack.name).name == stack.name == Stack(WRITTEN[text]).name
    assert set(stack.name) <= SAFE, stack.name


def test_a_name_does_not_depend_on_how_the_stack_was_written():
    assert Stack.of("schedule,accumulation(k=4)").name == "accumulation+schedule"
    assert Stack.of(" accumulation + schedule(warmup=0.05)").name == "accumulation+schedule"
    assert Stack.of("accumulation:k=4..8+zero").name == "accumulation:k=4..8+zero"
    assert Stack().name == Stack.of("baseline").name == "baseline"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("precision(dtpye=fp16)", "precision has no field 'dtpye'; precision has dtype=none, mode"),
        ("precision(dtype=fp8)", "dtype=fp8 is not bf16 or fp16 or none; precision has"),
        ("zero(stage=two)", "stage=two is not a whole number; zero has stage=2"),
        ("zero(stage=2.5)", "is not a whole number"),
        ("clipping(norm=x)", "norm=x is not a number; clipping has norm=1.0"),
        ("accumulation(adaptive=yes)", "adaptive=yes is not true or false"),
        ("accumulation(k=8..4)", "the smaller one comes first"),
        ("zero(stage=1..2)", "stage=1..2 is not a whole number"),
        ("precision(dtype=fp16", "is not closed or not opened"),
        ("precision)dtype(", "is not closed or not opened"),
        ("precision((dtype=fp16))", "is not closed or not opened"),
        ("precision(dtype=fp16)x", "nothing but a comma may follow"),
        ("precision(fp16)", "'fp16' is no option: write field=value"),
        ("precision(mode=master,mode=master)", "mode is given twice"),
        ("tf32(fast=true)", "tf32 has no options"),
        ("paper(k=4)", "paper has no options"),
        ("baseline,precision", "leave it out"),
        ("paper,paper", "twice"),
        (" , ", "the stack is empty"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_names_the_fields(text, said):
    with pytest.raises(TechniqueRefused) as refused:
        Stack.of(text)
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("placement=chen", "checkpointing(budget=2GiB,placement=chen), or leave it out"),
        ("every=2,placement=optimal", "placement=optimal chooses layers for a budget: give one"),
        ("budget=2GiB,every=2", "budget chooses the layers by itself: leave every out"),
        ("blocks=a,segments=none,layers=b", "blocks chooses the layers by itself: leave layers"),
    ],
)
def test_options_of_checkpointing_without_effect_are_refused(text, said):
    with pytest.raises(TechniqueRefused) as refused:
        Stack.of(f"checkpointing({text})").plan(Plan())
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_how_a_budget_chooses_is_shown_with_a_budget_only():
    for text, shown in (
        ("checkpointing", ""),
        ("checkpointing(every=2)", "every=2"),
        ("checkpointing(budget=2GiB)", "budget=2GiB placement=optimal"),
        ("paper,checkpointing(budget=2GiB,placement=chen)", "budget=2GiB placement=chen"),
    ):
        stored = {each["technique"]: each["settings"] for each in Stack.of(text).as_json(Plan())}
        assert stored["checkpointing"] == shown
    assert "placement" not in Stack.paper().table(Plan())
    given = Stack.of("checkpointing(budget=2GiB,placement=optimal)")
    assert given.name == Stack.of("checkpointing(budget=2GiB)").name


def test_any_dataclass_of_a_third_party_can_be_written():
    @dataclass(frozen=True)
    class Odd(Base):
        name = "odd"
        must: int
        ratios: tuple[float, ...] = (0.5,)
        word: str = ""

    with pytest.raises(TechniqueRefused, match="odd needs more options; odd has must, ratios="):
        make(Odd, {})
    for given in (Odd(3), Odd(3, (1.0, 2.5), "a=b+c(d),e/f"), Odd(-1, ())):
        assert make(Odd, read(write(given))[1]) == given
        assert split(write(given)) == [write(given)]


# -- the paper's -------------------------------------------------------------------------------


def test_the_papers_stack_on_several_gpus_is_the_papers(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    given = Plan(device="cuda", world=4, batch_size=128)
    plan = Stack.paper().plan(given)
    assert plan.accumulation == Accumulation(4, "split", True, 8, None, k_min=4, k_step=4)
    assert (plan.precision.dtype, plan.precision.mode) == (torch.float16, "master")
    assert plan.precision.scaled  # by a factor that follows overflows
    assert (plan.zero_stage, plan.clip_norm) == (2, 1.0)
    assert plan.schedule == Schedule(0.05, 0.1, "none")
    assert not [note for note in plan.notes if "differs" in note]


def test_the_papers_k_is_4_or_8():
    policy = KPolicy(Stack.paper().plan(Plan(batch_size=64)).accumulation, ranks=1)
    assert policy.k == 4
    policy.target, seen = 1.0, set()
    for variance in (0.1, 1.0, 3.9, 4.1, 7.0, 50.0):
        policy.variance = None
        policy.saw(variance, 1.0)
        seen.add((variance, policy.k))
    assert seen == {(0.1, 4), (1.0, 4), (3.9, 4), (4.1, 8), (7.0, 8), (50.0, 8)}


@pytest.mark.parametrize(
    ("text", "given", "lines"),
    [
        ("paper", {}, ["bf16 instead of fp16 (fp16 is slow on a CPU)", "no ZeRO-2: one rank"]),
        ("paper", {"device": "cuda"}, ["no ZeRO-2: one rank"]),
        ("paper", {"device": "cuda", "batch_size": 4}, ["k is 4, mode=split", "no ZeRO-2"]),
        ("paper,clipping(norm=2)", {"device": "cuda"}, ["clipped at 2", "no ZeRO-2"]),
        ("paper,checkpointing(every=1)", {"device": "cuda"}, ["other layers", "no ZeRO-2"]),
        ("paper,schedule(floor=0)", {"device": "cuda"}, ["another schedule", "no ZeRO-2"]),
        ("paper,accumulation(k=8),tf32", {"device": "cuda"}, ["k is 8", "tf32 in", "no ZeRO-2"]),
        (
            "paper,precision(mode=autocast)",
            {"device": "cuda"},
            ["weights stay fp32 under autocast", "no ZeRO-2"],
        ),
        ("paper,precision(dtype=fp16)", {}, ["no ZeRO-2"]),
    ],
)
def test_what_differs_from_the_paper_is_in_the_table(text, given, lines, monkeypatch):
    monkeypatch.setattr("optimizers.paper.cpu_has_bf16", lambda: True)
    table = Stack.of(text).table(Plan(**{"batch_size": 64} | given))
    matches = re.findall(r"note: differs from the paper: (.*)", table)
    assert len(matches) == len(lines)
    for line in lines:
        assert any(line in note for note in matches), (line, matches)


def test_options_after_paper_change_its_own_technique_and_keep_the_rest():
    stack = Stack.of("paper,precision(mode=autocast),zero(stage=3),loader(workers=1)")
    by_name = {technique.name: technique for technique in stack}
    assert by_name["precision"] == MixedPrecision("fp16", "autocast")
    assert by_name["zero"] == Zero(3) and by_name["loader"].workers == 1
    assert stack.name == "paper+loader:workers=1+precision:mode=autocast+zero:stage=3"
    assert Stack.of("zero(stage=2),paper").name == "paper"
    eight = {t.name: t for t in Stack.of("paper,accumulation(k=8)")}["accumulation"]
    assert eight.k == 8 and not eight.adaptive


@pytest.mark.parametrize(
    "text",
    [
        "paper,accumulation(k=8)",
        "paper,accumulation(k=8,adaptive=true)",
        "paper,accumulation(k=2..6)",
        "paper,precision(dtype=fp16)",
        "paper,precision(dtype=none)",
        "paper,precision(dtype=fp16,mode=autocast)",
        "paper,zero(stage=3),tf32",
    ],
)
def test_a_changed_paper_is_read_from_its_name(text):
    stack = Stack.of(text)
    again = Stack.of(stack.name)
    assert again.name == stack.name and set(again.techniques) == set(stack.techniques)
    for plan in (Plan(batch_size=64), Plan(batch_size=64, device="cuda")):
        assert again.on(plan) == stack.on(plan)
    assert set(stack.name) <= SAFE


def test_the_settings_that_are_stored_are_those_that_were_used(monkeypatch):
    monkeypatch.setattr("optimizers.paper.cpu_has_bf16", lambda: True)
    stored = {row["technique"]: row["settings"] for row in Stack.paper().as_json(Plan())}
    assert stored["precision"] == "dtype=bf16 mode=master"


# -- in an ablation ----------------------------------------------------------------------------


def test_an_ablation_takes_options():
    design = Design.of("cumulative", split("precision(dtype=fp16,mode=master), clipping", ","), 1)
    assert design.techniques == ("precision:dtype=fp16:mode=master", "clipping")
    arms = {arm.name: arm.stack for arm in design.arms(0)}
    assert arms == {
        "baseline": "baseline",
        "no-op": "baseline",
        "precision:dtype=fp16:mode=master": "precision:dtype=fp16:mode=master",
        "precision:dtype=fp16:mode=master+clipping": "clipping+precision:dtype=fp16:mode=master",
    }
    whole = Stack.of(arms["precision:dtype=fp16:mode=master+clipping"])
    assert set(whole.techniques) == {MixedPrecision("fp16", "master"), Clipping()}


def test_an_ablation_refuses_a_technique_twice_and_options_that_are_none():
    with pytest.raises(UsageError, match="named twice"):
        Design.of("cumulative", ["precision(dtype=fp16)", "precision(dtype=bf16)"], 1)
    with pytest.raises(UsageError, match="zero has no field 'level'; zero has stage=2"):
        Design.of("cumulative", ["zero(level=2)"], 1)
