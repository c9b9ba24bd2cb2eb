"""What is published of how far meters are off: known_meters.json, by the card's name.

A meter shows (1 + gain) × power + offset. Neither can be seen in its own data. Where nothing is
published, what the vendor states for all cards stands in: ±5 %.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

from ..model import Provenance, Source

VENDOR_GAIN = 0.05
_FILE = Path(__file__).with_name("known_meters.json")
VERSION = 1


class MeterEntry(TypedDict):
    """An entry of the file: the meters of a card that show ``quantities`` (energy, power)."""

    model: str
    quantities: list[str]
    gain: float
    offset_w: float


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
    for entry in _entries():
        if entry["model"] == source.model and source.quantity in entry["quantities"]:
            return Systematic(entry["gain"], entry["offset_w"], "database")
    return Systematic(VENDOR_GAIN, 0.0, "vendor")


@cache
def _entries() -> list[MeterEntry]:
    stored = json.loads(_FILE.read_text(encoding="utf-8"))
    if stored["version"] != VERSION:
        raise ValueError(f"{_FILE.name} is of version {stored['version']}, not {VERSION}")
    return list(stored["meters"])
