"""The words of pages and messages: plain, in sentences that can be read in one go.

What a message is: the text of an exception that is raised, a line that is said or noted, the help
of a command. Descriptions in the report's JSON Schema are prose, too; code, tables' cells and
quoted output are not.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe.cli.main import full_parser
from probe.report.serialization import SCHEMA_FILE

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(f for top in ("probe", "optimizers", "exporters") for f in (ROOT / top).rglob("*.md")),
        *(ROOT / name for name in ("tests/README.md", "examples/fleet/README.md")),
    }
)
LONGEST = 35  # words of a sentence
CODE = ("probe", "optimizers", "exporters", "dashboard", "benchmarks", "tests", "examples", "docs")

# Words that say nothing, or that the field does not use, and what to write instead.
ODD = {
    r"told(?! apart)": "said, given, reported",
    r"found out": "measured, worked out",
    r"simply|just(?! (?:before|after|ended|started))|easily|obviously|of course|clearly": "nothing",
    r"amid|whilst|lest|hence|thereof|whereof|wherein|thereby|albeit": "in, while, so, of it",
    r"dear|dearer|dearest": "expensive",
    r"mend|mends|mended": "fix",
    r"utili[sz]e[sd]?|leverag\w+|seamless\w*|powerful|blazing\w*|robust\w*": "what it does",
    r"heard of|hears of": "is called, notices",
    r"in order to": "to",
}
SAYING = {"say", "say_to_a_person", "warn", "note", "refuse", "absence"}


def prose(page: str) -> Iterator[str]:
    """Paragraphs and list items of a page, without code, tables, headings and links' targets."""
    page = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.DOTALL)
    page = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"\]\([^)]*\)", "]", page)
    for part in re.split(r"\n\s*\n|\n(?= *(?:[-*|#]|\d+\.) ?)", page):
        text = " ".join(part.split())
        if text and not part.startswith("    ") and text[0] not in "|#":
            yield text


def sentences(paragraph: str) -> list[str]:
    """Its sentences; a semicolon and a colon end one, since a reader can stop there."""
    plain = re.sub(r"`[^`]*`", "CODE", paragraph).replace("*", "")
    return re.split(r"(?<=[.;:!?])\)?\s+", plain)


def odd_words(text: str) -> list[str]:
    plain = re.sub(r"`[^`]*`", "", text)
    return [
        f"{match[0]!r}: {instead}"
        for word, instead in ODD.items()
        for match in re.finditer(rf"\b(?:{word})\b", plain, re.IGNORECASE)
    ]


def faults_of(paragraph: str) -> list[str]:
    """Its odd words, and its sentences that are too long."""
    faults = [f"{odd} in: {paragraph[:90]}" for odd in odd_words(paragraph)]
    for sentence in sentences(paragraph):
        words = re.findall(r"[^\W_]+(?:['’.,\-][^\W_]+)*", sentence)
        if len(words) > LONGEST:
            faults.append(f"{len(words)} words: {sentence[:120]}")
    return faults


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain(page: Path) -> None:
    faults = [
        fault
        for paragraph in prose(page.read_text(encoding="utf-8"))
        for fault in faults_of(paragraph)
    ]
    assert not faults, "\n".join(faults)


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of what is raised or said, parts that are filled in left out."""
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if isinstance(node, ast.Raise) or name in SAYING:
            for part in (*call.args, *(keyword.value for keyword in call.keywords)):
                for text in ast.walk(part):
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield node.lineno, text.value


def test_messages_are_plain() -> None:
    faults = [
        f"{file.relative_to(ROOT)}:{line}: {odd} in: {text[:90]}"
        for top in ("probe", "optimizers", "exporters", "dashboard")
        for file in sorted((ROOT / top).rglob("*.py"))
        for line, text in messages(ast.parse(file.read_text(encoding="utf-8")))
        for odd in odd_words(text)
    ]
    assert not faults, "\n".join(faults)


NO_NAMES = frozenset(("found", "heard", "known", "mine", "one", "told"))


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of what is assigned, passed or defined."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def test_names_say_what_they_hold() -> None:
    faults = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for top in CODE
        for file in sorted((ROOT / top).rglob("*.py"))
        for line, name in names(ast.parse(file.read_text(encoding="utf-8")))
        if name in NO_NAMES
    ]
    assert not faults, "\n".join(faults)


def test_a_name_that_says_nothing_is_seen() -> None:
    tree = ast.parse(
        "def f(told):\n    (one, two) = told\n    self.mine = [found for found in two]"
    )
    assert {name for _, name in names(tree)} >= {"told", "one", "mine", "found"}


def test_help_is_plain() -> None:
    faults = []
    for action in full_parser()._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for name, command in action.choices.items():
            texts = [command.description or "", *(a.help or "" for a in command._actions)]
            faults += [f"{name}: {odd}" for text in texts for odd in odd_words(text)]
    assert not faults, "\n".join(faults)


def descriptions(schema: object) -> Iterator[str]:
    """What a JSON Schema says of its types and keys."""
    if isinstance(schema, dict):
        text = schema.get("description")
        if isinstance(text, str):
            yield text.replace("``", "`")
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from descriptions(part)


def test_descriptions_of_the_report_are_plain() -> None:
    texts = list(descriptions(json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))))
    assert len(texts) > 200
    assert not [fault for text in texts for fault in faults_of(text)]


def test_the_check_sees_what_it_should() -> None:
    page = "It is simply told.\n\n| a table simply | x |\n\n```\njust code\n```\n\n`just` code."
    assert [odd_words(text) for text in prose(page)] == [
        ["'told': said, given, reported", "'simply': nothing"],
        [],
    ]
    assert len(sentences("One (two). Three: four; five.")) == 4
    said = list(messages(ast.parse("raise Error(f'told {x}')\nsay('just', line='mend it')")))
    assert [text for _, text in said if text.strip()] == ["told ", "just", "mend it"]
