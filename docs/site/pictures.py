"""The pictures of docs/CONCEPTS.md: ``python -m docs.site.pictures`` draws them into docs/pictures.

They are kept in the repository, so that the pages show them there; a test draws them again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
WIDTH = 720
LEFT, RIGHT = 90, 700  # of what is drawn over time

INK, SOFT = "#1f2328", "#59636e"
PHASES = {  # (length in ms, power in W, colour) of the step that all pictures show
    "data": (6.0, 80.0, "#8c8c8c"),
    "forward": (18.0, 260.0, "#2a7ab0"),
    "backward": (28.0, 330.0, "#c1521f"),
    "optimizer": (8.0, 190.0, "#3b7d4f"),
}
STEP_MS = sum(length for length, _, _ in PHASES.values())
UPDATE_MS = 100.0


def text(
    x: float, y: float, words: str, *, size: int = 13, colour: str = INK, at: str = "start"
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{at}">'
        f"{escape(words)}</text>"
    )


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    """A filled rectangle."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def line(points: list[tuple[float, float]], colour: str, width: float = 2, dash: str = "") -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'
    )


def drawing(height: float, title: str, parts: Iterator[str]) -> str:
    """A picture on a white card, which reads on a light page and on a dark one."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            'font-family="system-ui, sans-serif" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _x(ms: float, span_ms: float) -> float:
    return LEFT + (RIGHT - LEFT) * ms / span_ms


def _visits(span_ms: float) -> Iterator[tuple[str, float, float]]:
    """(phase, begin, end) of all visits that begin within the span."""
    begin = 0.0
    while begin < span_ms:
        for phase, (length, _, _) in PHASES.items():
            if begin < span_ms:
                yield phase, begin, min(begin + length, span_ms)
            begin += length


def step() -> str:
    """Steps and their phases above the updates of a meter."""
    span = 4 * STEP_MS

    def parts() -> Iterator[str]:
        yield text(16, 62, "phases", colour=SOFT)
        for phase, begin, end in _visits(span):
            x, width = _x(begin, span), _x(end, span) - _x(begin, span)
            yield box(x, 40, width - 1, 34, PHASES[phase][2])
        for number in range(4):
            begin, end = _x(number * STEP_MS, span), _x((number + 1) * STEP_MS, span)
            yield text((begin + end) / 2, 30, f"step {number + 1}", at="middle")
            yield line([(begin, 36), (begin, 78)], INK, 1)
        yield text(16, 118, "meter", colour=SOFT)
        yield line([(LEFT, 114), (RIGHT, 114)], SOFT, 1)
        update = 35.0
        while update < span:
            yield line([(_x(update, span), 102), (_x(update, span), 126)], INK, 3)
            update += UPDATE_MS
        yield text(_x(35, span) + 6, 142, "an update every 100 ms", size=12, colour=SOFT)
        for number, (phase, (length, _, colour)) in enumerate(PHASES.items()):
            x = LEFT + 150 * number
            yield box(x, 160, 12, 12, colour)
            yield text(x + 18, 171, f"{phase}, {length:.0f} ms")

    return drawing(
        188, "Four steps of 60 ms with their phases; a meter that updates every 100 ms", parts()
    )


def _true_power(ms: float) -> float:
    place = ms % STEP_MS
    for length, watts, _ in PHASES.values():
        if place < length:
            return watts
        place -= length
    return 0.0


def _shown_power(ms: float, *, delay_ms: float, lag_ms: float) -> float:
    """Power through a delay and a first-order lag, by summing its kernel."""
    width = 0.5
    ages = [width * (number + 0.5) for number in range(int(8 * lag_ms / width))]
    weights = [math.exp(-age / lag_ms) for age in ages]
    seen = (w * _true_power(ms - delay_ms - age) for w, age in zip(weights, ages, strict=True))
    return sum(seen) / sum(weights)


def late_sensor() -> str:
    """The power that a card draws, and what a late and slow sensor shows of it."""
    span, delay, lag = 3 * STEP_MS, 20.0, 15.0
    times = [0.5 * number for number in range(int(2 * span) + 1)]

    def y(watts: float) -> float:
        return 200 - 160 * watts / 360

    def parts() -> Iterator[str]:
        for phase, begin, end in _visits(span):
            x = _x(begin, span)
            yield box(x, 206, _x(end, span) - x - 1, 12, PHASES[phase][2])
        for watts in (0, 100, 200, 300):
            yield line([(LEFT, y(watts)), (RIGHT, y(watts))], "#d8dee4", 1)
            yield text(LEFT - 8, y(watts) + 4, f"{watts} W", size=12, colour=SOFT, at="end")
        true = [(_x(ms, span), y(_true_power(ms))) for ms in times]
        shown = [(_x(ms, span), y(_shown_power(ms, delay_ms=delay, lag_ms=lag))) for ms in times]
        yield line(true, SOFT, 1.5, "5 4")
        yield line(shown, "#8250df", 2.5)
        yield line([(LEFT, 246), (LEFT + 26, 246)], SOFT, 1.5, "5 4")
        yield text(LEFT + 34, 250, "what the card draws")
        yield line([(LEFT + 200, 246), (LEFT + 226, 246)], "#8250df", 2.5)
        yield text(
            LEFT + 234, 250, f"what a sensor {delay:.0f} ms late and {lag:.0f} ms slow shows"
        )

    return drawing(268, "True power by phase, and the same through a late and slow sensor", parts())


def intervals() -> str:
    """A resolved, a weak and a refused phase, each with what a report states of it."""
    rows = (
        ("backward", "resolved", 8830.0, (8710.0, 8950.0), "8830 J, 8710 … 8950 J"),
        ("optimizer", "weak", 1540.0, (700.0, 2380.0), "1540 J, 700 … 2380 J: use the interval"),
        ("data", "bounds only", None, (0.0, 500.0), "no number: between 0 and 500 J"),
    )

    def x(joules: float) -> float:
        return LEFT + 20 + (RIGHT - LEFT - 60) * joules / 10_000

    def parts() -> Iterator[str]:
        for number, (phase, status, estimate, (low, high), words) in enumerate(rows):
            y = 36 + 58 * number
            colour = PHASES[phase][2]
            yield text(16, y + 4, phase)
            yield text(16, y + 20, status, size=12, colour=SOFT)
            if estimate is None:
                yield line([(x(low), y), (x(high), y)], colour, 4, "4 4")
            else:
                yield line([(x(low), y), (x(high), y)], colour, 4)
                yield f'<circle cx="{x(estimate):.1f}" cy="{y}" r="5" fill="{colour}"/>'
            late = x(high) > 450
            yield text(
                x(low) - 10 if late else x(high) + 10, y + 4, words, at="end" if late else "start"
            )
        for joules in range(0, 10_001, 2000):
            yield text(x(joules), 206, f"{joules} J", size=12, colour=SOFT, at="middle")
            yield line([(x(joules), 184), (x(joules), 190)], SOFT, 1)
        yield line([(x(0), 184), (x(10_000), 184)], SOFT, 1)

    return drawing(218, "Three phases: resolved, weak, and with bounds only", parts())


PICTURES: dict[str, Callable[[], str]] = {
    "step.svg": step,
    "late-sensor.svg": late_sensor,
    "intervals.svg": intervals,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, draw in PICTURES.items():
        (FOLDER / file).write_text(draw(), encoding="utf-8")
