"""When a training is good enough: a metric, a direction, a value, met twice in a row."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import UsageError

_FORM = re.compile(r"\s*([A-Za-z_][\w./-]*)\s*(>=|<=|>|<)\s*([-+0-9.eE]+)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """``accuracy>=0.95``."""

    metric: str
    higher: bool
    value: float

    @classmethod
    def of(cls, text: str) -> Target:
        """Raises UsageError."""
        match = _FORM.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            return cls(match[1], match[2][0] == ">", float(match[3]))
        except ValueError:
            raise UsageError(f"target={text!r}: write for example 'accuracy>=0.95'") from None

    def met(self, value: float) -> bool:
        """Is this good enough?"""
        return value >= self.value if self.higher else value <= self.value

    def __str__(self) -> str:
        return f"{self.metric}{'>=' if self.higher else '<='}{self.value:g}"
