"""What a kilowatt-hour costs or emits, and when: energy is weighted by the time it was used.

A tariff is one number, or a CSV file of a time series: grid operators' hourly intensity, day-ahead
prices. A row holds until the next one. Times without a zone are UTC. Where the file says nothing of
the run's time there is no figure, for a grid's night is not its noon.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..attribution.meter.energy_curve import EnergyCurve
from ..clock import Anchor
from ..errors import UsageError
from ..units import J_PER_KWH, NS_PER_S

_TIME = re.compile(r"time|date|begin|start", re.IGNORECASE)
_NUMBER = re.compile(r"\s*([0-9.eE+-]+)\s*(?:([A-Za-z]{3})(?:\s*/\s*kWh)?)?\s*")
_MOST = 1e9  # per kWh: no price and no intensity, and its sums are still numbers
_CURRENCY = re.compile(r"\b(?!kWh|MWh|UTC)([A-Z]{3})\b")


@dataclass(frozen=True, slots=True)
class Tariff:
    """A price or a carbon intensity per kWh over time.

    ``value[k]`` holds from ``begin_ns[k]`` to the next, in ns since 1970; the last ends at
    ``end_ns``. ``unit`` is a currency, or ``g``; ``label`` says where it comes from.
    """

    begin_ns: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    end_ns: float
    unit: str
    label: str

    @classmethod
    def constant(cls, value: float, unit: str, label: str) -> Tariff:
        """A tariff that is the same at any time."""
        return cls(np.array([np.iinfo(np.int64).min]), np.array([value]), math.inf, unit, label)

    def covers(self, run: tuple[int, int], anchor: Anchor) -> bool:
        """True if the tariff says something of the whole run."""
        ahead_ns = anchor.wall_ns - anchor.monotonic_ns
        return int(self.begin_ns[0]) <= run[0] + ahead_ns and run[1] + ahead_ns <= self.end_ns

    def of(self, curve: EnergyCurve, run: tuple[int, int], anchor: Anchor) -> float:
        """Σ energy × value over a run, in the tariff's unit."""
        ahead_ns = anchor.wall_ns - anchor.monotonic_ns
        edges, value = self._parts(run, ahead_ns)
        return float(np.diff(curve.at(edges - ahead_ns)) @ value) / J_PER_KWH

    def mean(self, run: tuple[int, int], anchor: Anchor) -> float | None:
        """Mean over the time of a run, per kWh; None where it does not cover all of it."""
        if not self.covers(run, anchor):
            return None
        edges, value = self._parts(run, anchor.wall_ns - anchor.monotonic_ns)
        took = np.diff(edges)
        return float(took @ value) / float(took.sum()) if took.sum() else float(value[0])

    def _parts(
        self, run: tuple[int, int], ahead_ns: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The parts of a run in which the tariff is one number: (wall-clock ends, numbers)."""
        wall = run[0] + ahead_ns, run[1] + ahead_ns
        inside = self.begin_ns[(self.begin_ns > wall[0]) & (self.begin_ns < wall[1])]
        edges = np.concatenate([[wall[0]], inside, [wall[1]]]).astype(np.int64)
        return edges, self.value[np.searchsorted(self.begin_ns, edges[:-1], "right") - 1]


@dataclass(frozen=True, slots=True)
class Tariffs:
    """Both tariffs; None: not given. ``problems``: what is wrong in the environment variables."""

    intensity: Tariff | None = None
    price: Tariff | None = None
    problems: tuple[str, ...] = ()

    @classmethod
    def given(cls, intensity: str | None = None, price: str | None = None) -> Tariffs:
        """As the user wrote them, else PROBE_INTENSITY and PROBE_PRICE.

        Raises:
            UsageError: an argument is no number, and no file that can be read.
        """
        tariffs: dict[str, Tariff] = {}
        problems = []
        for what, text, unit in (("intensity", intensity, "g"), ("price", price, "")):
            configured = os.environ.get(f"PROBE_{what.upper()}")
            if text:
                tariffs[what] = tariff(text, what, unit)
            elif configured:
                try:
                    tariffs[what] = tariff(configured, what, unit)
                except UsageError as error:  # no reason to go without a report
                    problems.append(f"PROBE_{what.upper()}: {error}")
        return cls(tariffs.get("intensity"), tariffs.get("price"), tuple(problems))


def tariff(text: str, what: str, unit: str) -> Tariff:
    """``0.31``, ``0.31 EUR`` or a CSV file, per kWh.

    Args:
        what: ``intensity`` or ``price``, which the file's column should be called.
        unit: where the text names none.

    Raises:
        UsageError: it is none of these, in one line.
    """
    number = _NUMBER.fullmatch(text)
    if number is not None:
        try:
            value = float(number[1])
        except ValueError:
            value = math.nan
        if 0 <= value <= _MOST:
            return Tariff.constant(value, unit or (number[2] or "").upper(), "given")
    path = Path(text).expanduser()
    if number is None and ("/" in text or path.suffix) and not path.exists():
        raise UsageError(f"{what}={text!r}: there is no file {path.absolute()}")
    if number is not None or not path.is_file():
        raise UsageError(
            f"{what}={text!r}: write a number per kWh, or a CSV file with a column of "
            f"times and one of {what}"
        )
    try:
        file = path.stat()
        return _of_file(path, what, unit, file.st_mtime_ns, file.st_size)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


@lru_cache(maxsize=8)  # a live page asks twice a second
def _of_file(path: Path, what: str, unit: str, _modified_ns: int, _bytes: int) -> Tariff:
    """Read again when it has changed."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    return _series(path, rows, what, unit)


def _series(path: Path, rows: Sequence[Sequence[str]], what: str, unit: str) -> Tariff:
    head = rows[0] if rows else ()
    at = next((i for i, name in enumerate(head) if _TIME.search(name)), None)
    columns = [i for i in range(len(head)) if i != at]
    named = [i for i in columns if what in head[i].lower()]
    if at is None or not columns or (len(columns) > 1 and not named):
        raise UsageError(
            f"{path}: its first line must name a column of times and one of {what}, "
            f"but is {','.join(head)[:80]!r}"
        )
    column = (named or columns)[0]
    values: dict[int, float] = {}
    for number, row in enumerate(rows[1:], 2):
        try:
            when = datetime.fromisoformat(row[at].strip())
            value = float(row[column])
        except (ValueError, IndexError):
            raise UsageError(
                f"{path}, line {number}: no time and number in {','.join(row)[:60]!r}"
            ) from None
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        values[round(when.timestamp() * NS_PER_S)] = value
    if len(values) < 2 or not all(abs(value) <= _MOST for value in values.values()):
        raise UsageError(f"{path}: it needs two rows at least, all of them numbers")
    begin_ns = np.array(sorted(values), np.int64)
    scale = 1e-3 if "mwh" in head[column].lower() else 1.0
    currency = _CURRENCY.search(head[column])
    end_ns = float(begin_ns[-1] + np.diff(begin_ns)[-1])  # the last holds as long as the one before
    return Tariff(
        begin_ns,
        np.array([values[at_ns] for at_ns in begin_ns.tolist()]) * scale,
        end_ns,
        unit or (currency[1] if currency else ""),
        path.name,
    )
