"""Where users are: frameworks, batch systems, notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.results import read

from .figures import WATCHING, Figure, Item, benchmark, call, tests

_TRAININGS = "tests/integration/stacks/test_integrations.py"
_OLDEST = "make test-oldest: the entries under the oldest releases of their frameworks"


def entries() -> Iterator[Figure]:
    call(["make", ".venv/.frameworks"])
    yield from tests(
        "-n",
        "2",
        "-m",
        "not alone",
        _TRAININGS,
        "tests/unit/probe/integrations",
        "tests/unit/test_docs.py",
    )
    yield from tests("-m", "alone", _TRAININGS)
    done = call(["make", "test-oldest"])
    yield Figure(_OLDEST, f"exit {done.returncode}", done.returncode == 0)
    benchmark("cost.entries")
    for line in read("cost/entries")["lines"]:
        yield Figure(
            f"CPU time of {line['framework']}'s callback, bar 20 µs a step",
            f"{line['us']:.1f} µs",
            line["us"] <= 20.0,
        )


def batch_jobs() -> Iterator[Figure]:
    yield from tests(
        "tests/integration/ranks/test_cards_of_jobs.py",
        "tests/integration/ranks/test_slurm.py",
        "tests/integration/ranks/test_tasks.py",
        "tests/unit/probe/cli/test_slurm_accounting.py",
    )


def notebooks() -> Iterator[Figure]:
    yield from tests("tests/integration/notebooks/test_notebooks.py")


ITEMS = [
    Item(
        55,
        "an entry in a framework records what watch() does, and the training stays the same",
        entries,
        (
            *WATCHING,
            "probe/integrations",
            _TRAININGS,
            "tests/scripts/train_with_entries.py",
            "benchmarks/cost/entries.py",
        ),
    ),
    Item(
        56,
        "a batch job is one run that counts each card once, however it ends",
        batch_jobs,
        (*WATCHING, "tests/integration/ranks/test_cards_of_jobs.py"),
    ),
    Item(
        57,
        "notebooks: cells that are run again, interrupted, killed",
        notebooks,
        (*WATCHING, "tests/integration/notebooks/test_notebooks.py"),
    ),
]
