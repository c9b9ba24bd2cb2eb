"""What did each technique save?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from probe.report.sentences import short
from probe.report.text_tables import joules as joules_text
from probe.report.text_tables import seconds as seconds_text

from ..chart_data import Chart, Column
from .style import plain
from .waterfall import Part, waterfall

Json = Mapping[str, Any]

_DESIGNS = {
    "cumulative": "Each is what the step adds to those before it.",
    "leave-one-out": "Each is what would be lost without it.",
    "shapley": "Shapley values: each one's mean over all orders.",
}


def by_technique(ablation: Json) -> Chart:
    """Waterfall of an ablation: what each technique saved, one after the other or on average."""
    columns = [
        Column("technique", "technique"),
        Column("gain", "saved"),
        Column("low", "95 % from"),
        Column("high", "to"),
        Column("verdict", "verdict"),
        Column("unit", "unit"),
    ]
    unit, formatted, parts, total = _techniques(ablation)
    if not parts:
        return Chart("This ablation says nothing yet: trials are still to be run.", None, columns)
    short_names = [part._replace(name=plain(part.name, 34)) for part in parts]
    drawn = waterfall(short_names, total, unit, formatted)
    best = max(parts, key=lambda part: part.gain)
    first = "Nothing saves."
    if best.gain > 0:
        first = f"{short(best.name, 60)} saves most: {formatted(best.gain)}."
    caption = f"{first} {_DESIGNS[ablation['design']]}"
    if ablation.get("sound") is False:
        caption += " UNSOUND: doing nothing made a difference, so no figure here can be trusted."
    rows = [
        [part.name, part.gain, *(part.interval or (None, None)), part.verdict, unit]
        for part in [*parts, total]
    ]
    return Chart(caption, drawn, columns, rows)


def _techniques(ablation: Json) -> tuple[str, Callable[[float], str], list[Part], Part]:
    """(unit, how a gain is written, what each technique gained, what all did together)."""
    measured = ablation["no_op"]["energy_j"]["provenance"] == "measured"
    key, unit, formatted = (
        ("energy_j", "J", joules_text) if measured else ("time_s", "s", seconds_text)
    )
    gains: list[tuple[str, Json]] = []  # by technique, as the ablation has them
    total: Json | None = None
    if ablation["design"] == "cumulative":
        steps = ablation.get("steps", [])
        gains = [(row["technique"], row["step"][key]) for row in steps]
        total = steps[-1]["in_all"][key] if steps else None
    elif ablation["design"] == "leave-one-out":
        gains = [(row["technique"], row["gain"][key]) for row in ablation.get("left_out", [])]
        total = ablation["all"][key]
    else:
        values = (ablation.get("shapley") or {}).get(key) or {"techniques": []}
        gains = [(row["technique"], row) for row in values["techniques"]]
    parts = [
        Part(name, gain["gain"], gain["interval"], gain["verdict"])
        for name, gain in gains
        if gain["gain"] is not None
    ]
    if total is None or total["gain"] is None:
        total = {
            "gain": sum(part.gain for part in parts),
            "interval": None,
            "verdict": "no evidence",
        }
    return (
        unit,
        formatted,
        parts,
        Part("all together", total["gain"], total["interval"], total["verdict"]),
    )
