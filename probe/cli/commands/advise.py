"""``probe advise RUN``: what to try next, and what it could gain at most."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...report.numbers import duration, energy, interval, number
from ...report.printable import printable
from ...simulated_card import WORD
from ...small_process import stay_small
from ..arguments import add_format, add_run

if TYPE_CHECKING:
    from ...compare.advise import Advice, Tip

SUMMARY = "what to try next on a run, and what it could gain at most"
EXAMPLES = ("probe advise                        of the latest run", "probe advise my-run --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_run(parser)
    add_format(parser, "text", "json")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit code. Raises UsageError, StoreError."""
    stay_small()
    from ...compare.advise import advise
    from ...report.serialization import to_json
    from ...store.layout import runs_dir
    from ...store.runs import find_run
    from ...store.seals import await_end
    from ...store.trainings import single

    ranked = advise(await_end(single(find_run(options.run, runs_dir(options.dir)))))
    print(to_json(ranked) if options.format == "json" else advice(ranked))
    return 0


def advice(ranked: Advice) -> str:
    """A paragraph for each thing to try, most joules first."""
    total = duration(ranked.duration_s)
    if ranked.energy_j is not None:
        total = f"{energy(ranked.energy_j)}, {total}"
    name = ranked.run.name or ranked.run.id
    if ranked.run.simulated:
        name = f"{WORD}: {name}"
    lines = [f"{name} · {total} · ranked by {ranked.ranked_by}"]
    if not ranked.advice:
        lines.append("nothing that this run spent can be named as worth removing")
    for place, tip in enumerate(ranked.advice, 1):
        lines += [
            "",
            f"{place}. {tip.what}: {_bound(tip)}",
            f"   rests on: {_rests(tip)}",
            f"   try: {tip.try_}",
        ]
    return "\n".join(map(printable, lines))


def _bound(tip: Tip) -> str:
    if tip.at_most_j is None and "power" in tip.what:
        return (
            f"reached for {100 * tip.share:.0f} % of the time; what another limit gains is "
            "not known before it is tried"
        )
    gained = duration(tip.at_most_s)
    if tip.at_most_j is not None:
        gained = f"{energy(tip.at_most_j)} and {gained}"
    return f"at most {gained} ({100 * tip.share:.1f} % of the run)"


def _rests(tip: Tip) -> str:
    parts = []
    for row in tip.rests_on:
        text = f"{row.phase} on {row.device}, {duration(row.time_s)}"
        if row.energy_j is not None and row.interval_j is not None:
            low, high = row.interval_j
            half = (high - low) / 2
            text += f", {energy(row.energy_j, half)} ({interval(low, high)})"
        elif row.interval_j is not None:
            text += f", {interval(*row.interval_j)} J"
        elif row.capped is not None:
            text += f", capped {100 * row.capped:.0f} % of it"
        parts.append(text)
    if tip.peak_memory_bytes is not None and tip.memory_bytes is not None:
        parts.append(
            f"{number(tip.peak_memory_bytes / 2**30)} of "
            f"{number(tip.memory_bytes / 2**30)} GiB used"
        )
    return "; ".join(parts)
