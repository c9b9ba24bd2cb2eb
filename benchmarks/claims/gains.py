"""Comparisons and ablations: how often they are right, and a real one."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.results import read

from .figures import WATCHING, Figure, Item, benchmark, tests


def verdicts() -> Iterator[Figure]:
    benchmark("energy.gains")
    result = read("energy/gains")
    for line in result["lines"]:
        blocks = "blocks" if line["blocks"] else "groups"
        yield Figure(
            f"{line['technique']}, {line['mode']}, {line['runs']} {blocks}",
            f"coverage {line['held']} %, gain {line['gain']} %, cost gain {line['cost_gain']} %, "
            f"any cell {line['any_cell']} %, adds up to {line['closure']:.0e}",
            not line["missed"],
        )
    yield Figure("comparisons of each", str(result["comparisons"]), result["comparisons"] >= 2000)
    yield from tests("tests/unit/probe/compare", "tests/contract/test_comparisons.py")


def games() -> Iterator[Figure]:
    yield from tests("tests/unit/optimizers/test_ablation.py")


def real_ablation() -> Iterator[Figure]:
    for design in ("cumulative", "shapley"):
        failed = benchmark("energy.ablation", "--design", design)
        result = read(f"energy/ablation-{design}")
        sound = {True: "sound", False: "UNSOUND, as one in twenty is by chance"}.get(
            result["sound"]
        )
        yield Figure(
            f"{design}: {result['trials']} trials, {result['blocks']} blocks"
            + (", bar 10 min" if design == "cumulative" else ""),
            f"{result['minutes']} min, killed after {result['killed_after']}, the same "
            f"table again: {result['same_table']}; no-op {sound}",
            not failed,
        )


def compared() -> Iterator[Figure]:
    yield from tests("tests/integration/compare")


def phases() -> Iterator[Figure]:
    failed = benchmark("energy.phase_gains")
    result = read("energy/phase_gains")
    for pair in result["pairs"]:
        yield Figure(
            f"only {pair['phase']} got cheaper, seed {pair['seed']}",
            f"{100 * pair['share']:.1f} % of the gain, {pair['verdict']}",
            True,
        )
    yield Figure("pairs that are right, bar 14 of 15", str(result["right"]), not failed)
    yield from tests("tests/integration/compare/test_real_pairs.py")


def classes() -> Iterator[Figure]:
    yield from tests("tests/unit/probe/instrument/test_roofline.py", "tests/loops/test_classify.py")


def tables() -> Iterator[Figure]:
    yield from tests("tests/contract/test_paper_tables.py", "tests/contract/test_objective.py")


def searches() -> Iterator[Figure]:
    yield from tests("tests/unit/optimizers/search", "tests/integration/search")


def cards() -> Iterator[Figure]:
    yield from tests(
        "tests/unit/optimizers/test_cards.py", "tests/integration/compare/test_cards.py"
    )


def real_search() -> Iterator[Figure]:
    benchmark("training.search")
    result = read("training/search")
    for other, each in result["against"].items():
        yield Figure(
            f"{len(result['repeats'])} repeats against {other}",
            f"saves {each['saved_s']:.3f} s, {each['interval']}: {each['verdict']}",
            each["verdict"] == "gain",
        )


ITEMS = [
    Item(
        22,
        "a gain is called where there is one, and hardly ever where there is none",
        verdicts,
        ("probe/compare", "benchmarks/energy/gains.py", "tests/unit/probe/compare"),
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
        (*WATCHING, "optimizers/ablation", "benchmarks/energy/ablation.py"),
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
    Item(
        45,
        "compare assigns a gain to the phase that got cheaper; real pairs: to named phases",
        phases,
        (
            *WATCHING,
            "probe/compare",
            "benchmarks/energy/phase_gains.py",
            "tests/integration/compare/test_real_pairs.py",
        ),
    ),
    Item(
        46,
        "classify counts a step once, in start-up, and changes nothing of any training",
        classes,
        (
            "probe/instrument/roofline",
            "tests/unit/probe/instrument/test_roofline.py",
            "tests/loops/test_classify.py",
        ),
    ),
    Item(
        48,
        "the paper's tables and its objective are those of the runs' own files",
        tables,
        (
            "probe/compare",
            "tests/contract/test_paper_tables.py",
            "tests/contract/test_objective.py",
        ),
    ),
    Item(
        50,
        "a search finds near-optimal settings, calls no null champion, survives kills and failures",
        searches,
        (
            *WATCHING,
            "probe/compare",
            "optimizers/search",
            "tests/unit/optimizers/search",
            "tests/integration/search",
        ),
    ),
    Item(
        51,
        "a real search beats random search and the default at equal cost",
        real_search,
        (*WATCHING, "probe/compare", "optimizers/search", "benchmarks/training/search.py"),
    ),
    Item(
        52,
        "a card gives a null technique no verdict, and a real gain the same one on fresh seeds",
        cards,
        (
            *WATCHING,
            "probe/compare",
            "optimizers/cards",
            "optimizers/ablation",
            "tests/unit/optimizers/test_cards.py",
            "tests/integration/compare/test_cards.py",
        ),
    ),
]
