"""Names of runs with commas, in texts that name several runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe.compare.groups import Campaign
from probe.errors import UnknownRunError
from probe.store.runs import create_run, find_runs, references

NAMES = ("gpt", "gpt-a", "gpt-a,b", "gpt-a,b,c", "b", "x, y")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for place, name in enumerate(NAMES):
        fields = {"name": name, "host": "h", "status": "finished"}
        create_run(tmp_path, f"20260101-00000{place}-r{place}", shared=False, fields=fields)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpt-a,b", ["gpt-a,b"]),
        ("gpt-a,b,c", ["gpt-a,b,c"]),
        ("gpt-a,b,gpt", ["gpt-a,b", "gpt"]),
        ("gpt,gpt-a,b,c", ["gpt", "gpt-a,b,c"]),
        ("b,gpt-a", ["b", "gpt-a"]),
        ("x, y", ["x, y"]),
        ("x, y , b", ["x, y", "b"]),
        ("nobody,b", ["nobody", "b"]),
        ("b,", ["b"]),
        (",", [","]),
    ],
)
def test_the_longest_name_that_a_run_has_is_one_reference(
    text: str, expected: list[str], directory: Path
) -> None:
    assert references(text, directory) == expected


def test_runs_are_found_by_names_with_commas(directory: Path) -> None:
    assert [run.name for run in find_runs("gpt-a,b", directory)] == ["20260101-000002-r2"]
    both = [run.name for run in find_runs("b,gpt-a,b,c", directory)]
    assert both == ["20260101-000004-r4", "20260101-000003-r3"]
    with pytest.raises(UnknownRunError, match="'gpt-z'"):
        find_runs("gpt-z,b", directory)


def test_a_comparison_names_the_side_that_does_not_exist(directory: Path) -> None:
    with pytest.raises(UnknownRunError, match="nothing"):
        Campaign.of("gpt-a,nothing,other", ["none,nothing"], directory=directory)
