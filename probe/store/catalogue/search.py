"""Which runs a text means, as one types it.

Words stand for runs that have all of them, anywhere in name, id, tags, note, configuration, status,
host, batch job, account, user, day or hungriest phase; no case. ``tag:sweep`` looks only there
(name, id, tag, note, config, status, host, job, account, user, phase, date), ``date:2026-11``,
``from:2026-11-01`` and ``to:2026-11-07`` at the day it began (UTC), ``-word`` leaves out,
``"two words"`` stay together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from ...errors import UsageError
from .rows import RunSummary

LONGEST = 200  # characters of a text; the rest is not looked at
_DAY = re.compile(r"\d{4}(-\d\d(-\d\d)?)?\Z")
_WORD = re.compile(r'(-?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))')


def _day(row: RunSummary) -> str:
    return (row["started"] or "")[:10]


def _phase(row: RunSummary) -> str:
    hungriest = row["hungriest"]
    return "" if hungriest is None else hungriest["phase"]


FIELDS: dict[str, Callable[[RunSummary], str]] = {
    "name": lambda row: row["name"],
    "id": lambda row: row["id"],
    "tag": lambda row: "\n".join(row["tags"]),
    "note": lambda row: row["note"],
    "config": lambda row: row["config"],
    "status": lambda row: row["status"],
    "host": lambda row: row["host"],
    "job": lambda row: row["job"],
    "account": lambda row: row["account"],
    "user": lambda row: row["user"],
    "phase": _phase,
    "date": _day,
}


@dataclass(frozen=True, slots=True)
class Search:
    """A text, understood: runs have all of ``words`` and none of ``without``.

    ``within`` and ``outside`` are (field, word); ``first`` and ``last`` are days, "" for any.
    """

    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    within: tuple[tuple[str, str], ...] = ()
    outside: tuple[tuple[str, str], ...] = ()
    first: str = ""
    last: str = ""

    @classmethod
    def of(cls, text: str) -> Search:
        """What a text asks for; any text asks for something."""
        words: tuple[list[str], list[str]] = [], []
        fields: tuple[list[tuple[str, str]], list[tuple[str, str]]] = [], []
        first = last = ""
        for not_, field, quoted, plain in _WORD.findall(text[:LONGEST].lower()):
            word = quoted or plain
            if not word:
                continue
            if field == "from":
                first = word
            elif field == "to":
                last = word
            elif field in FIELDS:
                fields[bool(not_)].append((field, word))
            else:
                words[bool(not_)].append(f"{field}:{word}" if field else word)
        return cls(
            tuple(words[0]), tuple(words[1]), tuple(fields[0]), tuple(fields[1]), first, last
        )

    def finds(self, row: RunSummary) -> bool:
        """Whether it means a run, itself or one of its trainings."""
        return any(self._finds(each) for each in (row, *(row.get("trainings") or ())))

    def _finds(self, row: RunSummary) -> bool:
        if (self.first or self.last) and not self._in_time(_day(row)):
            return False
        if any(word not in FIELDS[field](row).lower() for field, word in self.within):
            return False
        if any(word in FIELDS[field](row).lower() for field, word in self.outside):
            return False
        if not self.words and not self.without:
            return True
        text = "\n".join(look(row) for look in FIELDS.values()).lower()
        return all(word in text for word in self.words) and not any(
            word in text for word in self.without
        )

    def _in_time(self, day: str) -> bool:
        # "to:2026-11" is the whole of November: no day of it sorts after "2026-11~".
        return bool(day) and self.first <= day and (not self.last or day <= self.last + "~")


def check_days(text: str) -> None:
    """Refuse a text whose ``from:`` or ``to:`` is no day, month or year.

    Not for a page that searches while one types, where ``from:2026-1`` is on its way.

    Raises:
        UsageError: one of them is no date.
    """
    search = Search.of(text)
    for field, word in (("from", search.first), ("to", search.last)):
        if word and not _is_day(word):
            raise UsageError(f"{field}:{word} is not a date: write {field}:2026-11-01")


def _is_day(word: str) -> bool:
    """Whether it is a day, or the begin of one: a month or a year."""
    try:
        date.fromisoformat(word + "-01-01"[len(word) - 4 :])
    except ValueError:
        return False
    return _DAY.match(word) is not None


def matching(rows: Iterable[RunSummary], text: str, *, archived: bool = False) -> list[RunSummary]:
    """The rows that a text means, in their order.

    Args:
        rows: all runs.
        text: what is searched for; "" for all.
        archived: archived runs, too.
    """
    search = Search.of(text)
    shown: Sequence[RunSummary] = [row for row in rows if archived or not row["archived"]]
    return list(shown) if search == Search() else [row for row in shown if search.finds(row)]
