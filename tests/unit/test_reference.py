"""What users can name stands in the reference; figures of pages are those that were measured."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import optimizers
import probe
from docs.site.generated import commands, other_json, python, schema
from optimizers.recommended import STACKS
from probe.cli.main import command_names, full_parser
from probe.compare.gain import percent_of
from probe.report.group_model import GroupReport
from probe.report.model import Report
from probe.report.serialization import SCHEMA_FILE
from tests.fakes.reports import full_report, group_report

from .test_docs import MARKDOWN, ROOT, text_of

MOST_WORDS = 30  # of a key's description


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in full_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def test_every_option_stands_in_the_reference() -> None:
    sections = re.split(r"^## probe ", commands.page(), flags=re.MULTILINE)[1:]
    described = {section.split()[0]: section for section in sections}
    assert list(described) == command_names()
    for name, parser in parsers():
        for action in parser._actions:
            words = action.option_strings or [str(action.metavar or action.dest)]
            assert action.help, (name, words)  # an argument without a word says nothing
            if action.help != argparse.SUPPRESS and "--help" not in words:
                assert all(f"`{word}" in described[name] for word in words), (name, words)


def json_keys(value: object) -> Iterator[str]:
    """The keys of a dataclass and all below it, not those of data such as phases' names."""
    for name in getattr(type(value), "__dataclass_fields__", {}):
        yield name.rstrip("_")
        yield from json_keys(getattr(value, name))
    if isinstance(value, dict):
        for item in value.values():
            yield from json_keys(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from json_keys(item)


@pytest.mark.parametrize("report", [full_report(), group_report()], ids=["run", "group"])
def test_every_key_of_a_report_stands_in_the_reference(report: Report | GroupReport) -> None:
    page = schema.page()
    keys = set(json_keys(report))
    assert len(keys) > 20
    assert {key for key in keys if f"| `{key}`" not in page} == set()


def test_every_key_of_a_report_has_a_short_description() -> None:
    types = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["$defs"]
    held = {
        f"{name}.{key}": value.get("description", "")
        for name, type_ in types.items()
        for key, value in type_.get("properties", {}).items()
    }
    assert len(held) > 200
    # pydantic leaves a description out that is the same as that of the key's type.
    assert {key for key, text in held.items() if not text.endswith(".")} == set()
    assert {key for key, text in held.items() if len(text.split()) > MOST_WORDS} == set()
    for type_ in types.values():
        for value in type_.get("enum", ()):
            assert f"``{value}``" in type_["description"]


def test_the_json_of_every_other_command_stands_in_the_reference() -> None:
    with_json = {
        name
        for name, parser in parsers()
        if any("--json" in action.option_strings for action in parser._actions)
    }
    described = {command.split()[1] for command in other_json.ROOTS}
    assert with_json - described == {"report"}  # which has a page of its own
    pytest.importorskip("torch")
    page = other_json.page()
    for root, _ in other_json.ROOTS.values():
        for key in other_json.keys(other_json.type_of(root)):
            assert f"| `{key}` |" in page
    assert "any JSON value |" not in page.split("## `probe ls")[0]


def test_every_variable_stands_on_its_page() -> None:
    named = re.compile(r"\bPROBE_[A-Z_]+\b")
    used = {
        match[0]
        for top in ("probe", "exporters", "dashboard", "optimizers")
        for file in (ROOT / top).rglob("*.py")
        for match in named.finditer(file.read_text(encoding="utf-8"))
    } - {"PROBE_EVERY"}  # a constant of `accumulation`
    page = (ROOT / "docs/ENVIRONMENT.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(PROBE_[A-Z_]+)` \|", page, re.MULTILINE)) == used
    assert set(named.findall(text_of(MARKDOWN))) - {"PROBE_"} <= used


def test_every_public_name_stands_in_the_reference() -> None:
    described = python.documented()
    for package in (probe, optimizers):
        for name in package.__all__:
            if name != "__version__":
                assert f"{package.__name__}.{name}" in described


def results(name: str) -> Any:
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))


def rows(page: str, *first: str) -> dict[str, list[str]]:
    """The cells of a page's table rows that begin so, in the page's first table that has them."""
    figures: dict[str, list[str]] = {}
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("|") and cells[0] in first and len(cells) > 1 and cells[1][0].isdigit():
            figures.setdefault(cells[0], cells[1:])
    return figures


WAYS = {
    "phasewatt": "phasewatt",
    "Zeus, windows per phase": "Zeus",
    "torch.profiler": "torch.profiler",
    "CodeCarbon, a task per phase": "CodeCarbon",
}


@pytest.mark.parametrize("page", ["README.md", "docs/COMPARISON.md"])
def test_the_costs_of_a_page_are_those_that_were_measured(page: str) -> None:
    (size,) = results("cost/overhead")["sizes"].values()
    shown = rows(page, *WAYS)
    assert shown.keys() == WAYS.keys()
    for label, way in WAYS.items():
        measured = size["ways"][way]
        figures = [f"{measured['mean_us']:.0f}", f"{measured['upper_us']:.0f}"]
        given = re.findall(r"\d+", " ".join(shown[label]))
        assert given == figures[: len(given)]


@pytest.mark.parametrize("page", ["README.md", "docs/COMPARISON.md"])
def test_the_errors_of_a_page_are_those_that_were_measured(page: str) -> None:
    scenes = {
        f"{scene['name']}, {scene['step']}": scene
        for scene in results("energy/attribution")["scenes"]
    }
    names = {  # in words on the pages; assumed is a lag of 8 ms
        "slow by 8 ms": "as assumed",
        "first-order lag of 8 ms": "as assumed",
        "20 ms late": "D 20, τ 0 ms",
        "30 ms late, slow by 60 ms": "D 30, τ 60 ms",
        "30 ms late, lag of 60 ms": "D 30, τ 60 ms",
        "measures 25 of every 100 ms": "25 of 100 ms",
    }
    shown = rows(page, *names)
    assert {names[label] for label in shown} == set(names.values())
    for label, cells in shown.items():
        scene = scenes[f"{names[label]}, 60 ms"]
        measured = (
            scene["inferred"]["misattributed"],
            scene["others"]["endpoints"],
            scene["others"]["time split"],
        )
        for cell, value in zip(cells, measured, strict=False):  # the README has more columns
            digits = len(cell.removesuffix(" %").partition(".")[2])
            assert float(cell.removesuffix(" %")) == pytest.approx(value, abs=0.51 * 10**-digits)


@pytest.mark.parametrize("page", ["README.md", "docs/COST_AND_ACCURACY.md", "docs/KNOWN_LIMITS.md"])
def test_what_the_recorder_takes_is_what_was_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"{100 * results('cost/recorder')['cpu_share']:.1f} % of" in text


def test_what_recommended_stacks_save_is_what_was_measured() -> None:
    page = (ROOT / "docs/CARDS.md").read_text(encoding="utf-8")
    for task in results("training/recommended")["tasks"].values():
        saved = task["time_s"]
        low, high = percent_of(saved["base"], saved["interval"])
        assert task["stack"] == STACKS["cpu", task["kind"]] and saved["verdict"] == "gain"
        figures = f"{saved['percent']:.1f} % less, a gain | {low:.1f} … {high:.1f} %"
        assert f"| `{task['stack']}` | {figures}" in page


def test_the_papers_claims_beside_ours_are_what_was_measured() -> None:
    page = (ROOT / "optimizers/PAPER.md").read_text(encoding="utf-8")
    measured = results("training/paper")
    missing = [cells for cells in paper_cells(measured) if cells not in page]
    assert not missing


def paper_cells(measured: dict[str, Any]) -> Iterator[str]:
    """Cells of the page's two tables: the paper's figure and ours, with its interval."""

    def beside(paper: str, form: str, percent: float, limits: list[float]) -> str:
        low, high = limits
        ours = f"{percent:{form}} % ({low:.1f} … {high:.1f})".replace("-", "−")
        return f"| {paper} % | {ours} |"

    for task in ("I", "II"):
        rows = paper_table(measured, task, task)
        for row in rows:
            paper = row["paper"]["percent"]["printed"]
            yield beside(paper, "+.1f", row["percent"], row["interval_percent"])
        parts = {part: (base, other) for part, base, other in measured[task]["memory_parts"]}
        saved, (low, high) = measured[task]["fewer_samples_s"]
        yield f"{saved:.1f} s ({low:.1f} … {high:.1f})"
        saved, (low, high) = measured[task]["cheaper_samples_s"]
        yield f"{-saved:.1f} s ({-high:.1f} … {-low:.1f})"
        base, other = parts["activations"]
        yield f"| −{100 * (1 - other / base):.1f} % |"
    for row in paper_table(measured, "I", "III")[1:]:
        paper = row["paper"]["faster"]["printed"]
        yield beside(paper, ".1f", row["faster"], row["interval_faster"])


def paper_table(measured: dict[str, Any], task: str, name: str) -> list[dict[str, Any]]:
    tables = measured[task]["tables"]["tables"]
    return next(each["rows"] for each in tables if each["table"] == name)
