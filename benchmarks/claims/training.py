"""The techniques and the trainer."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.results import read

from .figures import Figure, Item, benchmark, tests


def equations() -> Iterator[Figure]:
    yield from tests(
        "tests/unit/optimizers/test_equations.py",
        "tests/unit/optimizers/test_half_precision.py",
        "tests/unit/optimizers/test_best_k.py",
    )
    yield from tests("tests/integration/training/test_training.py", "-k", "variance or variable")


def books() -> Iterator[Figure]:
    benchmark("training.accumulation", "--blocks", "60")
    result = read("training/accumulation")
    for name, bar in (("variance", 0.03), ("stack", 0.05)):
        row = result["ways"][name]
        yield Figure(
            f"{name}: share of a step of {result['parameters'] / 1e6:.1f} M parameters, "
            f"bar {bar:.0%}; A/A upper {result['ways']['A/A']['upper']:.2%}",
            f"{row['mean']:.2%}, upper 95 % {row['upper']:.2%}",
            row["upper"] <= bar,
        )


def loops() -> Iterator[Figure]:
    yield from tests("tests/unit/optimizers/test_equations.py", "-k", "bit_identical")
    benchmark("training.trainer")
    result = read("training/trainer")
    ways = result["ways"]
    ours = ways["phasewatt"]
    for name, row in ways.items():
        better = name in ("hand-written", "phasewatt") or ours["median_us"] < row["median_us"]
        yield Figure(f"{name} adds to a step", f"{row['median_us']} µs", better)
    shipped = result["shipped"]["ours"]
    yield Figure(
        "≤ 1 % of the shipped model's step",
        f"{shipped['mean']:.2%}, upper 95 % {shipped['upper']:.2%}",
        shipped["upper"] <= 0.01,
    )


def stacks() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/training/test_training.py",
        "-k",
        "subset or paper or refused or third_party or compressed",
    )


def memory() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/training/test_memory.py",
        "tests/integration/training/test_placement.py",
        "tests/unit/optimizers/test_segments.py",
        "tests/unit/optimizers/test_free_schedule.py",
    )


def resumes() -> Iterator[Figure]:
    yield from tests("tests/integration/training/test_resume.py")
    yield from tests("tests/integration/recording/test_resumed.py")


def exchanges() -> Iterator[Figure]:
    yield from tests("tests/integration/ranks/test_exchanges.py")


def wrong_data() -> Iterator[Figure]:
    yield from tests("tests/e2e/test_examples.py")


ITEMS = [
    Item(
        12,
        "the paper's equations hold, on one rank, under DDP and ZeRO",
        equations,
        ("optimizers", "tests/unit/optimizers", "tests/integration/training/test_training.py"),
    ),
    Item(
        13,
        "variance and the stack's books cost little",
        books,
        ("optimizers", "benchmarks/training/accumulation.py"),
    ),
    Item(
        14,
        "the trainer is the hand-written loop, and adds least of all",
        loops,
        ("optimizers", "benchmarks/training/trainer.py"),
    ),
    Item(
        15,
        "stacks train, impossible ones are refused",
        stacks,
        ("optimizers", "tests/integration/training/test_training.py"),
    ),
    Item(
        16,
        "checkpointing frees the memory that was predicted, at the least cost where it says so",
        memory,
        (
            "optimizers",
            "tests/integration/training/test_memory.py",
            "tests/integration/training/test_placement.py",
            "tests/unit/optimizers",
        ),
    ),
    Item(
        17,
        "a killed training goes on as if nothing had been",
        resumes,
        (
            "optimizers",
            "tests/integration/training/test_resume.py",
            "tests/integration/recording/test_resumed.py",
        ),
    ),
    Item(
        18,
        "wrong data and failing trainings get one line",
        wrong_data,
        ("optimizers", "examples", "tests/e2e/test_examples.py"),
    ),
    Item(
        49,
        "gradients that ranks exchange arrive as the papers say, and train",
        exchanges,
        ("optimizers", "tests/scripts", "tests/integration/ranks/test_exchanges.py"),
    ),
]
