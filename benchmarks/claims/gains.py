"""Comparisons and ablations: how often they are right, and a real one."""

from __future__ import annotations

from collections.abc import Iterator

from ._runner import WATCHING, Figure, Item, benchmark, result, tests


def verdicts() -> Iterator[Figure]:
    benchmark("gains.py")
    found = result("gains")
    for line in found["lines"]:
        blocks = "blocks" if line["blocks"] else "groups"
        yield Figure(
            f"{line['technique']}, {line['mode']}, {line['runs']} {blocks}",
            f"coverage {line['held']} %, gain {line['gain']} %, cost gain {line['cost_gain']} %, "
            f"any cell {line['any_cell']} %, adds up to {line['closure']:.0e}",
            not line["missed"],
        )
    yield Figure("comparisons of each", str(found["comparisons"]), found["comparisons"] >= 2000)
    yield from tests("tests/unit/probe/compare", "tests/contract/test_comparisons.py")


def games() -> Iterator[Figure]:
    yield from tests("tests/unit/optimizers/test_ablation.py")


def real_ablation() -> Iterator[Figure]:
    for design in ("cumulative", "shapley"):
        failed = benchmark("ablation.py", "--design", design)
        found = result(f"ablation-{design}")
        sound = {True: "sound", False: "UNSOUND, as one in twenty is by chance"}.get(found["sound"])
        yield Figure(
            f"{design}: {found['trials']} trials, {found['blocks']} blocks"
            + (", bar 10 min" if design == "cumulative" else ""),
            f"{found['minutes']} min, killed after {found['killed_after']}, the same "
            f"table again: {found['same_table']}; no-op {sound}",
            not failed,
        )


def compared() -> Iterator[Figure]:
    yield from tests("tests/integration/compare")


ITEMS = [
    Item(
        22,
        "a gain is called where there is one, and hardly ever where there is none",
        verdicts,
        ("probe/compare", "benchmarks/gains.py", "tests/unit/probe/compare"),
    ),
    Item(
        23,
        "Shapley values of known games are exact, sampled ones cover",
        games,
        ("optimizers/ablation", "tests/unit/optimizers/test_ablation.py"),
    ),
    Item(
        24,
        "a real ablation with measured energy survives a kill",
        real_ablation,
        (*WATCHING, "optimizers/ablation", "benchmarks/ablation.py"),
    ),
    Item(
        25,
        "real runs are compared, advised on and tabled; unlike ones are named",
        compared,
        (
            *WATCHING,
            "probe/compare",
            "tests/integration/compare/test_compare.py",
            "tests/integration/compare/test_ablation.py",
        ),
    ),
]
