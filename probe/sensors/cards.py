"""What is published of cards' meters: cards.json, by the card's name and its driver.

Of a card's meter an entry may hold the period, window and delay of its readings, and its errors: a
meter shows (1 + gain) × power + offset. Neither error can be seen in its own data. Where none is
published, what the vendor states for all cards stands in: ±5 %. Periods, windows and delays are
where a search begins, never what it ends with: data win.

PROBE_CARDS names another file of the same form, whose entries go first. An entry that breaks
cards.schema.json is left out with one line.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..model import Provenance, Source

VENDOR_GAIN = 0.05
VERSION = 1
_FILE = Path(__file__).with_name("cards.json")
_LIMITS = {  # least and most of each number, as in cards.schema.json
    "period_s": (1e-9, 2.0),
    "window_s": (1e-9, 2.0),
    "delay_s": (-0.01, 1.0),
    "gain": (-0.9, 0.9),
    "offset_w": (-500.0, 500.0),
}
_TEXTS = ("model", "source", "date")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One entry: of a card's meters of these quantities; None where nothing is published."""

    model: str
    quantities: tuple[str, ...]
    source: str
    date: str
    driver: str = ""  # its beginning; empty: any
    period_s: float | None = None
    window_s: float | None = None
    delay_s: float | None = None
    gain: float | None = None
    offset_w: float | None = None

    def is_of(self, model: str, quantity: str, driver: str) -> bool:
        """True for a meter of this card; an entry of one driver only for that."""
        numbers = self.driver.split(".") if self.driver else []
        same = driver.split(".")[: len(numbers)] == numbers
        return self.model == model and quantity in self.quantities and same


@dataclass(frozen=True, slots=True)
class Systematic:
    """How far all that a meter shows is off: a share of power, and watts at all powers.

    Of a published card both have a sign; ``origin`` is "database". Of any other the gain may be off
    to either side; ``origin`` is "vendor". The simulated card's meter is exact ("simulation").
    """

    gain: float
    offset_w: float
    origin: str

    def half_j(self, energy_j: float, seconds: float) -> float:
        """By how much the energy of some seconds may be off, in J."""
        return abs(self.gain * energy_j) + abs(self.offset_w) * seconds


def systematic(source: Source) -> Systematic | None:
    """What is known of a meter's errors; None for a model, which is no meter."""
    if source.provenance is not Provenance.MEASURED:
        return None
    if source.simulated:
        return Systematic(0.0, 0.0, "simulation")
    for card in cards():
        same = card.model == source.model and source.quantity in card.quantities
        if same and card.gain is not None and card.offset_w is not None:
            return Systematic(card.gain, card.offset_w, "database")
    return Systematic(VENDOR_GAIN, 0.0, "vendor")


def published(model: str, quantity: str, driver: str) -> Card | None:
    """The first entry that tells how a card's meter shows power; None without any."""
    for card in cards():
        has_response = card.window_s is not None or card.delay_s is not None
        if has_response and card.is_of(model, quantity, driver):
            return card
    return None


def cards() -> tuple[Card, ...]:
    """All entries that are whole, those of PROBE_CARDS first."""
    return _read(os.environ.get("PROBE_CARDS", ""))[0]


def problems() -> tuple[str, ...]:
    """A line for each entry, or file, that is left out."""
    return _read(os.environ.get("PROBE_CARDS", ""))[1]


@cache
def _read(given: str) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    usable: list[Card] = []
    lines: list[str] = []
    for file in ([Path(given)] if given else []) + [_FILE]:
        try:
            with file.open(encoding="utf-8") as stream:
                stored = json.loads(stream.read(_MOST_BYTES))
            if stored["version"] != VERSION:
                raise ValueError(f"it is of version {stored['version']!r}, not {VERSION}")
            entries = list(stored["cards"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            lines.append(f"{file.name} is ignored: {error}")
            continue
        for number, entry in enumerate(entries, 1):
            try:
                usable.append(card_of(entry))
            except (ValueError, TypeError, KeyError) as error:
                lines.append(f"{file.name}: entry {number} is ignored: {error}")
    return tuple(usable), tuple(lines)


def card_of(entry: Any) -> Card:
    """An entry of the file. Raises ValueError, TypeError or KeyError where it is malformed."""
    if not isinstance(entry, dict):
        raise TypeError("it is no object")
    fields: dict[str, Any] = {}
    for name in _TEXTS:
        fields[name] = _text(entry[name], name)
    if "driver" in entry:
        fields["driver"] = _text(entry["driver"], "driver")
    fields["quantities"] = tuple(_text(q, "quantities") for q in entry["quantities"])
    for name, (least, most) in _LIMITS.items():
        if name in entry:
            value = entry[name]
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name} is no number")
            if not math.isfinite(value) or not least <= value <= most:
                raise ValueError(f"{name} is {value:g}, outside {least:g} to {most:g}")
            fields[name] = float(value)
    unknown = entry.keys() - Card.__dataclass_fields__.keys()
    if unknown:
        raise ValueError(f"{min(unknown)!r} is no field of an entry")
    if ("gain" in entry) != ("offset_w" in entry):
        raise ValueError("gain and offset_w go together")
    return Card(**fields)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{name} is no text")
    return value
