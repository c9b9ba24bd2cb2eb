"""From what was measured to a word, and why.

pays         a gain in time or joules, no loss
trades       a gain in one quantity, a loss in another
costs        a loss and no gain
no evidence  all else; a gain of memory or quality alone saves no time and no joules

A gain, and the loss that makes ``costs``, must hold among all questions of all cards (Holm). Beside
a gain a loss counts by its own interval already: one that is overlooked is worse than one too many.
"""

from __future__ import annotations

from collections.abc import Sequence

from probe.compare.gain import ALL, Verdict, closed
from probe.compare.model import Comparison
from probe.compare.reasons import CONTAINS_ZERO, RUNS_NEEDED
from probe.report.text_tables import percent

from .model import Measured, Word
from .quantities import ENERGY, QUALITY, TIME

NAMES = {TIME: "time", ENERGY: "joules", "memory": "peak memory", QUALITY: "final quality"}


def word(rows: Sequence[Measured], comparison: Comparison) -> Word:
    """The verdict.

    Args:
        rows: with adjusted verdicts.
        comparison: by ``probe compare``, which knows whether the quality is good enough.
    """
    lost_quality = any(row.quantity == QUALITY and row.verdict is Verdict.LOSS for row in rows)
    # Worse by more than is allowed, and not sure: a gain may be bought with quality.
    unclear = comparison.quality.ok is False and not lost_quality
    gains = {row.quantity for row in rows if row.adjusted_verdict is Verdict.GAIN}
    gains = set() if unclear else gains
    if gains and any(row.verdict is Verdict.LOSS for row in rows):
        return Word.TRADES
    if gains & {TIME, ENERGY}:
        return Word.PAYS
    if not gains and any(row.adjusted_verdict is Verdict.LOSS for row in rows):
        return Word.COSTS
    return Word.NO_EVIDENCE


def reason(verdict: Word, rows: Sequence[Measured], comparison: Comparison) -> str:
    """What the verdict rests on, or what the intervals still allow, in one sentence."""
    if verdict in (Word.PAYS, Word.TRADES, Word.COSTS):
        return "; ".join(
            f"{NAMES[row.quantity]}: {_amount(row)}"
            for row in rows
            if row.adjusted_verdict is not Verdict.NO_EVIDENCE
            or (verdict is Word.TRADES and row.verdict is Verdict.LOSS)
        )
    if comparison.runs < 2:
        return f"one seed: no interval; {RUNS_NEEDED}"
    why = comparison.reason
    parts = [why] if why and not why.endswith(CONTAINS_ZERO) else []
    parts += [f"{NAMES[row.quantity]}{_possible(row)}" for row in rows if closed(row.interval)]
    own = [NAMES[row.quantity] for row in rows if row.verdict is not row.adjusted_verdict]
    if own:
        parts.append(f"{' and '.join(own)} would have a verdict as the only question")
    return "; ".join(parts)


def _possible(row: Measured) -> str:
    if row.adjusted_verdict is Verdict.NO_EVIDENCE:
        return f" may be {allowed(row)}"
    return f": {_amount(row)}"


def _amount(row: Measured) -> str:
    limits = allowed(row)
    size = percent(abs(row.percent)) if row.percent is not None else "not known how much"
    kind = _direction(row, (row.gain or 0.0) >= 0)
    if row.gain is None:
        return f"{_direction(row, False)}, by an amount that is not known"
    return f"{size} {kind} (95 %: {limits})" if limits else f"{size} {kind} in every pair"


def allowed(row: Measured) -> str:
    """The interval in words: ``3 % less … 1.5 % more``; "" without one."""
    limits, base = closed(row.interval), abs(row.base or 0.0)
    if limits is None:
        return ""
    if not base:
        return f"{limits[0]:.3g} … {limits[1]:.3g}"
    low, high = (100 * end / base for end in limits)
    if row.quantity != QUALITY:  # a quality may get better by more than it was
        high = min(high, ALL)
    return " … ".join(f"{percent(abs(end))} {_direction(row, end >= 0)}" for end in (high, low))


def _direction(row: Measured, is_gain: bool) -> str:
    if row.quantity == QUALITY:
        return "better" if is_gain else "worse"
    return "less" if is_gain else "more"
