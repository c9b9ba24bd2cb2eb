"""Names of what callbacks touch."""

from __future__ import annotations

URL = "url"
RUN = "run"  # which run, store
SPAN = "span"  # seconds that are looked at, or nothing for all; store
LATER = "later"  # what the rest of the page draws once the first chart is there; store
TICK = "tick"  # twice a second while a run goes on
SLOW_TICK = "slow-tick"
STRIP = "strip"
NOTICES = "notices"
SEEN = "seen"  # how new what is shown is; store
RUNS = "runs-table"
RUNS_TICK = "runs-tick"
BASE, OTHERS, TARGET = "base", "others", "target"
COMPARISON = "comparison"
SENSORS, EXAMINE = "sensors", "examine"


def graph(view: str) -> dict[str, str]:
    """Of a view's chart."""
    return {"type": "graph", "view": view}


def caption(view: str) -> dict[str, str]:
    """What it says in words."""
    return {"type": "caption", "view": view}


def card(view: str) -> dict[str, str]:
    """All of it, hidden if there is nothing to show."""
    return {"type": "card", "view": view}


def links(view: str) -> dict[str, str]:
    """To its table and its CSV."""
    return {"type": "links", "view": view}


def slow(view: str) -> dict[str, str]:
    """How new a chart is that is drawn again every few seconds; store."""
    return {"type": "slow", "view": view}
