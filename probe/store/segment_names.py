"""Names of segments: which table and writer, which numbers they hold, and whether they are thinned.

``edges-main0-1-000007`` is the seventh segment of a ring that recorder 1 wrote;
``edges-main0-1-000001-000012`` holds the first twelve, ``…-000012-thin`` what is kept of them. A
segment that another one covers counts no more, whether its file is still there or not: so a file
that joins or thins others takes their place in the moment in which it gets its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile(r"(.+?)-(\d{6,})(?:-(\d{6,}))?(-thin)?")


@dataclass(frozen=True, slots=True)
class SegmentName:
    """A segment's name taken apart; it holds the segments ``first`` to ``last`` of its writer."""

    writer: str  # as in edges-main0-1
    first: int
    last: int
    thin: bool = False

    @property
    def stem(self) -> str:
        """The name of its file, without the ending."""
        return self.whole_stem + ("-thin" if self.thin else "")

    @property
    def whole_stem(self) -> str:
        """Its name before it was thinned, which its rollups keep."""
        until = f"-{self.last:06d}" if self.last != self.first else ""
        return f"{self.writer}-{self.first:06d}{until}"

    @property
    def table(self) -> str:
        """Samples, edges or ledger."""
        return self.writer.partition("-")[0]

    @property
    def epoch(self) -> int:
        """The fencing number of the recorder that wrote it."""
        number = self.writer.rpartition("-")[2]
        return int(number) if number.isdecimal() else 0

    def covers(self, other: SegmentName) -> bool:
        """Whether the other one counts no more where this one is."""
        if self.writer != other.writer or self == other:
            return False
        same = (self.first, self.last) == (other.first, other.last)
        return self.thin if same else self.first <= other.first and other.last <= self.last


def parse(stem: str) -> SegmentName | None:
    """The parts of a name; None if it is no segment's."""
    match = _NAME.fullmatch(stem)
    if match is None:
        return None
    writer, first, last, thin = match.groups()
    return SegmentName(writer, int(first), int(last or first), thin is not None)


def counted(stems: Iterable[str]) -> list[str]:
    """The names that count, sorted: without those that another one covers."""
    names = {stem: parse(stem) for stem in sorted(stems)}
    kept = [stem for stem, name in names.items() if name is None]
    widest: SegmentName | None = None
    for name in sorted(filter(None, names.values()), key=_wide_first):
        if widest is None or not widest.covers(name):
            widest = name
            kept.append(name.stem)
    return sorted(kept)


def _wide_first(name: SegmentName) -> tuple[str, int, int, bool]:
    return name.writer, name.first, -name.last, not name.thin
