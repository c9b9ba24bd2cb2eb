"""``probe advise RUN``: what to try next, and what it could gain at most."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ...report.numbers import duration, energy, interval, number
from ..arguments import add_run

SUMMARY = "what to try next on a run, and what it could gain at most"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    add_run(parser)
    parser.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    """Raises UsageError, StoreError."""
    from ...compare.advise import advise
    from ...store.layout import runs_dir
    from ...store.runs import find_run

    found = advise(find_run(options.run, runs_dir(options.dir)))
    print(json.dumps(found, indent=1, allow_nan=False) if options.json else advice(found))
    return 0


def advice(found: dict[str, Any]) -> str:
    """A paragraph for each thing to try, most joules first."""
    run = found["run"]
    total = duration(found["duration_s"])
    if found["energy_j"] is not None:
        total = f"{energy(found['energy_j'])}, {total}"
    lines = [f"{run['name'] or run['id']} · {total} · ranked by {found['ranked_by']}"]
    if not found["advice"]:
        lines.append("nothing that this run spent can be named as worth removing")
    for place, one in enumerate(found["advice"], 1):
        lines += [
            "",
            f"{place}. {one['what']}: {_bound(one)}",
            f"   rests on: {_rests(one)}",
            f"   try: {one['try']}",
        ]
    return "\n".join(lines)


def _bound(one: dict[str, Any]) -> str:
    if one["at_most_j"] is None and "power" in one["what"]:
        return (
            f"reached for {100 * one['share']:.0f} % of the time; what another limit gains is "
            "not known before it is tried"
        )
    gained = duration(one["at_most_s"])
    if one["at_most_j"] is not None:
        gained = f"{energy(one['at_most_j'])} and {gained}"
    return f"at most {gained} ({100 * one['share']:.1f} % of the run)"


def _rests(one: dict[str, Any]) -> str:
    told = []
    for row in one["rests_on"]:
        text = f"{row['phase']} on {row['device']}, {duration(row['time_s'])}"
        if row.get("energy_j") is not None:
            low, high = row["interval_j"]
            half = (high - low) / 2
            text += f", {energy(row['energy_j'], half)} ({interval(low, high)})"
        elif row.get("interval_j"):
            text += f", {interval(*row['interval_j'])} J"
        elif "capped" in row:
            text += f", capped {100 * row['capped']:.0f} % of it"
        told.append(text)
    if "memory_bytes" in one:
        told.append(
            f"{number(one['peak_memory_bytes'] / 2**30)} of "
            f"{number(one['memory_bytes'] / 2**30)} GiB used"
        )
    return "; ".join(told)
