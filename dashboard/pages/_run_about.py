"""On a run's page: what to try next, and what the run was started with."""

from __future__ import annotations

import json
import shlex
from typing import Any

from dash import html

from probe.compare.advise import Advice, Tip
from probe.report.numbers import duration, energy
from probe.report.numbers import share as share_text

from ..chart_data import Origin


def cards_of(advice: Advice) -> Any:
    """A card for each thing to try, with what it gains at most, the largest first."""
    if not advice.advice:
        return html.P(
            "Nothing that this run spent can be named as worth removing.", className="caption"
        )
    by = "energy" if advice.ranked_by == "energy" else "time, as no energy was measured"
    return [
        html.P(
            f"Most first, by {by}. What a thing gains is what was spent on it, and no more.",
            className="caption",
        ),
        html.Ul([html.Li(_tip(tip)) for tip in advice.advice], className="tips"),
    ]


def _tip(tip: Tip) -> Any:
    if tip.at_most_j is not None:
        bound = f"at most {energy(tip.at_most_j)} and {duration(tip.at_most_s)}"
    elif "power" in tip.what:
        bound = "not known before it is tried"
    else:
        bound = f"at most {duration(tip.at_most_s)}"
    rests = ", ".join(dict.fromkeys(row.phase for row in tip.rests_on))
    return [
        html.H3(tip.what[:1].upper() + tip.what[1:]),
        html.P([html.Strong(bound), f" · {share_text(tip.share)} of the run"], className="bound"),
        html.P(f"Try {tip.try_}."),
        html.P(f"Rests on: {rests}.", className="caption"),
    ]


def origin(started: Origin) -> Any:
    """The command line, the configuration and the code, as the run recorded them."""
    code = ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in started.code.items() if value
    )
    parts: list[Any] = []
    for title, text in (
        ("Command", shlex.join(started.command)),
        ("Directory of the run", started.directory),
        ("Code", code),
        (
            "Configuration",
            json.dumps(started.config, indent=2, ensure_ascii=False) if started.config else "",
        ),
        ("Environment", "\n".join(f"{k}={v}" for k, v in started.environment.items())),
    ):
        parts += [html.H3(title), html.Pre(text)] if text else []
    return parts or html.P("Nothing of it was recorded.", className="caption")
