"""What a terminal would obey is shown: names and phases come from anybody's script."""

from __future__ import annotations

from dataclasses import replace

from probe.cli.commands.advise import advice
from probe.cli.commands.ls import listing
from probe.compare.advise import of_report
from probe.report.formats import text
from probe.store.catalogue.rows import empty_row
from tests.fakes.reports import full_report

NAME = "\x1b[31mred\n\x00\x07\x9b1m"


def controls(shown: str) -> set[str]:
    return {char for char in shown if ord(char) < 32 or 127 <= ord(char) < 160} - {"\n"}


def test_a_report_holds_no_control_characters() -> None:
    report = full_report(NAME)
    report = replace(report, run=replace(report.run, name=NAME), warnings=(f"{NAME} grows",))
    for short in (False, True):
        shown = text.shaped(report, text.Shape(short=short))
        assert "[31mred" in shown and not controls(shown)


def test_advice_holds_no_control_characters() -> None:
    report = full_report(NAME)
    shown = advice(of_report(replace(report, run=replace(report.run, name=NAME))))
    assert "[31mred" in shown and not controls(shown)


def test_a_row_of_the_list_stays_one_line_of_its_width() -> None:
    rows = [empty_row("id-1", "finished") | {"name": NAME}]
    plain = listing(rows)
    assert not controls(plain) and len(plain.splitlines()) == 2
    rows += [empty_row("id-2", "finished") | {"name": "x" * 300}]
    shown = listing(rows)
    assert max(map(len, shown.splitlines())) < 120 and "x…" in shown
