"""Cards as Markdown: a page for each technique, and one line each in an index."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from probe.compare.formats import phase_tables
from probe.compare.gain import Gain, Verdict, closed
from probe.compare.model import Comparison, ComparisonReport
from probe.model import Provenance
from probe.report.formats.md import cell, prose, table_of
from probe.report.numbers import number
from probe.report.text_tables import (
    Table,
    between,
    joules,
    mebibytes,
    percent,
    seconds,
    signed_percent,
)

from .analysis import Pages
from .model import GLYPHS, Card, CardSet, Measured, Word
from .quantities import ENERGY, MEMORY, QUALITY, TIME
from .verdicts import NAMES, allowed

Unit = Callable[[float | None], str]
_UNITS: dict[str, Unit] = {
    TIME: seconds,
    ENERGY: joules,
    MEMORY: mebibytes,
    QUALITY: lambda value: number(value).replace("-", "−"),
}


def index(cards: CardSet) -> str:
    """One line for each technique."""
    lines = [f"# Method cards: {_code(cards.base)} and one technique more", ""]
    lines += [f"{_where(cards)}. How to read them: `docs/CARDS.md` of phasewatt.", ""]
    head = ["", "technique", "verdict", *(NAMES[name] for name in _UNITS)]
    lines += [_row(head), _row(["---"] * len(head))]
    for card in cards.cards:
        by_name = {row.quantity: row for row in card.measured}
        name = card.page.removeprefix("cards/")
        amounts = [_short(by_name.get(quantity)) for quantity in _UNITS]
        link = f"[{_code(card.technique)}]({name})"
        lines.append(_row([GLYPHS[card.verdict], link, card.verdict, *amounts]))
    lines += ["", *_no_joules(cards.cards), _how_sure(cards), ""]
    return "\n".join([*lines, *(f"- {prose(remark)}" for remark in cards.remarks)]).rstrip() + "\n"


def _no_joules(cards: Sequence[Card]) -> list[str]:
    if any(row.quantity == ENERGY for card in cards for row in card.measured):
        return []
    return ["Joules: no meter measured them (`probe doctor` says why).", ""]


def page(pages: Pages, card: Card) -> str:
    """The card of one technique."""
    cards = pages.cards
    lines = [f"# {GLYPHS[card.verdict]} {_code(card.technique)}: {card.verdict}", ""]
    lines += [prose(card.what), "", f"**{card.verdict}**: {prose(card.reason)}", ""]
    settings = f"{_code(card.settings)}, " if card.settings else ""
    lines += [
        f"- Settings: {settings}trained as `--stack {card.stack}`",
        f"- Source: {prose(card.source)}",
        f"- {_where(cards)}",
        f"- Seeds, each without and with it: {card.seeds} of {cards.seeds}",
        f"- Command: {_code(shlex.join(cards.command))}",
        "",
        "## Predicted and measured",
        "",
        f"- Predicted: {prose(card.predicts)}",
        f"- Measured: {_measured(card)}",
        "",
    ]
    target, work = pages.to_target.get(card.technique), pages.equal_work.get(card.technique)
    if target is not None:
        lines += _decisive(f"To the target, {cell(cards.target or '')}", cards, card)
        lines += _split(target.comparisons[0])
    if work is not None and target is not None:
        lines += _beside(work.comparisons[0])
    elif work is not None:
        lines += _decisive("At equal work", cards, card)
        lines += ["There is no target, so neither side can need fewer samples: all is cost.", ""]
    if work is not None:
        lines += _phases(work)
    return "\n".join([*lines, "## How sure", "", _how_sure(cards)]) + "\n"


def _where(cards: CardSet) -> str:
    base = f"Base {_code(cards.base)}, {cards.seeds} seeds"
    return f"{base}; {cell(cards.hardware)}; torch {cell(cards.torch)}, Python {cell(cards.python)}"


def _how_sure(cards: CardSet) -> str:
    if not cards.tests:
        return "Nothing could be tested: a verdict needs two seeds or more with and without it."
    return (
        f"Intervals are 95 %, over pairs of one seed. All cards together ask {cards.tests} "
        f"questions. A gain, and a loss without a gain, needs p < 5 % after Holm's adjustment for "
        "all of them, so that the chance of any false one among the cards is 5 % at most. Beside "
        "a gain a loss counts by its own interval. Quality counts beyond "
        f"{percent(cards.tolerance_percent)}."
    )


def _decisive(title: str, cards: CardSet, card: Card) -> list[str]:
    """The quantities on which the verdict rests."""
    rows = []
    for row in card.measured:
        unit = _UNITS[row.quantity]
        name = NAMES[row.quantity]
        if row.quantity == QUALITY and cards.metric is not None:
            name = f"{name} ({cards.metric})"
        if row.gain is None and row.base is None:
            rows.append([name, *["—"] * 6, "not measured"])
            continue
        interval = between(row.interval, unit) if row.interval else _without_interval(card)
        p = "" if row.adjusted_p is None else _p(row.adjusted_p)
        amounts = [unit(row.base), unit(row.other), unit(row.gain), percent(row.percent)]
        rows.append([name, *amounts, interval, p, str(row.adjusted_verdict)])
    head = ["", "base", "with it", "saved, or better", "", "95 % interval", "p, adjusted"]
    head.append("verdict")
    comparison = card.to_target or card.equal_work
    return [
        f"## {title}",
        "",
        *table_of(Table("", head, rows, frozenset({0, len(head) - 1}))),
        *_without_joules(comparison),
    ]


def _without_interval(card: Card) -> str:
    return "one seed: none" if card.seeds < 2 else "the same in every pair"


def _p(value: float) -> str:
    return "< 0.001" if value < 1e-3 else f"{value:.2g}"


def _without_joules(comparison: Comparison | None) -> list[str]:
    provenance = None if comparison is None else comparison.energy_j.provenance
    if provenance is Provenance.MEASURED:
        return []
    why = (
        "Joules: a model only, no meter (`probe doctor` says why), so they have no figure here."
        if provenance is Provenance.MODELLED
        else "Joules: not measured on both sides (`probe doctor` says why)."
    )
    return [why, ""]


def _split(comparison: Comparison) -> list[str]:
    """Progress (fewer samples) and cost (cheaper ones)."""
    if comparison.time_s.gain is None:
        return []
    if not comparison.time_s.progress:
        return ["Progress × cost: both sides needed as many samples, so all is cost.", ""]
    rows = []
    for name, gain, unit in _quantities(comparison):
        if gain.progress is None or gain.cost is None:
            continue
        parts = (
            (unit(gain.progress), between(gain.progress_interval, unit), gain.progress_verdict),
            (unit(gain.cost), between(gain.cost_interval, unit), gain.cost_verdict),
        )
        rows.append([name, *(str(text) for part in parts for text in part)])
    head = ["saved", "by fewer samples", "95 % interval", "alone", "by cheaper samples"]
    head += ["95 % interval", "alone"]
    table = Table("Progress × cost", head, rows, frozenset({0, 3, 6}))
    return [*table_of(table)]


def _quantities(comparison: Comparison) -> list[tuple[str, Gain, Unit]]:
    rows: list[tuple[str, Gain, Unit]] = [("time", comparison.time_s, seconds)]
    if comparison.energy_j.provenance is Provenance.MEASURED:
        rows.append(("joules", comparison.energy_j, joules))
    return rows


def _beside(comparison: Comparison) -> list[str]:
    """At equal work, where the verdict is by the target."""
    rows = []
    for name, gain, unit in [
        *_quantities(comparison),
        ("peak memory", comparison.memory_bytes, mebibytes),
    ]:
        if gain.gain is None:
            rows.append([name, *["—"] * 5, "not measured"])
            continue
        amounts = [unit(gain.base), unit(gain.other), unit(gain.gain), percent(gain.percent)]
        rows.append([name, *amounts, between(gain.interval, unit), str(gain.verdict)])
    head = ["", "base", "with it", "saved", "", "95 % interval", "alone"]
    return [
        "## At equal work",
        "",
        "As if both had trained on the samples of the base. These rows decide nothing; what stands "
        "under *alone* is the verdict of a row by itself.",
        "",
        *table_of(Table("", head, rows, frozenset({0, len(head) - 1}))),
        *_without_joules(comparison),
    ]


def _phases(report: ComparisonReport) -> list[str]:
    """Seconds, and joules where a meter measured them."""
    comparison = report.comparisons[0]
    if comparison.energy_j.provenance is not Provenance.MEASURED:
        energy_j = replace(comparison.energy_j, provenance=None)
        comparison = replace(comparison, energy_j=energy_j, verdict_by="time")
    lines = ["## By phase", ""]
    for table in phase_tables(report, comparison):
        lines += table_of(table)
    return lines


def _measured(card: Card) -> str:
    if card.verdict is Word.NOT_MEASURED:
        return "nothing"
    parts = [
        f"{NAMES[row.quantity]} {_short(row)}" for row in card.measured if row.gain is not None
    ]
    return ", ".join(parts) or "no amount: a run missed the target"


def _short(row: Measured | None) -> str:
    """``12 % less (8 … 16 %)``, and what the verdict on it is."""
    if row is None or row.gain is None:
        return "—"
    change = _signed_percent(-row.gain, row)
    if row.quantity == QUALITY:
        change = _signed_percent((row.other or 0.0) - (row.base or 0.0), row)
    limits = closed(row.interval)
    if limits is None or not row.base:
        return change
    sure = "" if row.adjusted_verdict is Verdict.NO_EVIDENCE else f", {row.adjusted_verdict}"
    return f"{change} ({allowed(row)}{sure})"


def _signed_percent(difference: float, row: Measured) -> str:
    if not row.base:
        return "—"
    return signed_percent(100 * difference / abs(row.base))


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
