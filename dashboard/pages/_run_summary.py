"""What a run's page says in words and numbers: how the run stands, and how well it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from probe.report.model import RateRow
from probe.report.numbers import duration, energy, number

from .. import urls
from ..chart_data import Overview
from ..components import badge, chart_table, notice, table, tile, tiles, with_code
from ..context import app_context
from ..figures.phase_totals import largest_phase
from ..figures.quality import absent, activity, quality
from ..figures.waste import wasted


def head(run: Overview) -> Any:
    """Name, status, and how long it took."""
    ended = f" ({run.ended_by})" if run.ended_by else ""
    steps = f", {run.steps} steps" if run.steps else ""
    ranks: list[Any] = []
    if run.ranks > 1:
        ranks = [", ", dcc.Link(f"{run.ranks} ranks", href=app_context().href(urls.ranks(run.id)))]
    return html.Header(
        [
            html.H1(run.name or run.id),
            html.P(
                [
                    badge(run.status),
                    f"{ended} {'for' if run.live else 'after'} {duration(run.duration_s)}{steps}",
                    *ranks,
                    f", begun {run.started[:19]} UTC on {run.host} ",
                    html.Code(run.id),
                ],
                className="soft",
            ),
        ]
    )


def strip(run: Overview) -> Any:
    """Good or bad, and how sure: six figures at the top."""
    shown = [_energy(run), _each(run), _power(run), _waste(run), _carbon(run), _coverage(run)]
    largest = largest_phase(run)
    verdict: Any = ""
    if largest is not None:
        row, share, what = largest
        verdict = html.P(
            [html.Strong(row.phase), f" takes most of the {what}: {100 * share:.0f} %."],
            className="verdict",
        )
    return html.Div([verdict, tiles(shown)])


def _energy(run: Overview) -> Any:
    if run.energy_j is not None:
        half = (run.interval_j[1] - run.interval_j[0]) / 2 if run.interval_j else None
        note = f"± {energy(half, half)}" if half is not None else "so far" if run.live else ""
        return tile("energy, measured", energy(run.energy_j, half), note)
    if run.modelled_j is not None:
        return tile("energy, by a model", energy(run.modelled_j), "no meter was found", "modelled")
    return tile("energy", "not known", "no meter" if not run.live else "waiting for a meter")


def _each(run: Overview) -> Any:
    joules = run.energy_j if run.energy_j is not None else run.modelled_j
    kind = "modelled" if run.energy_j is None else ""
    logged = run.logged or {}
    for key, unit in (("samples", "sample"), ("tokens", "token")):
        if joules is not None and logged.get(key):
            return tile(
                f"per {unit}", energy(joules / logged[key]), f"{logged[key]:.0f} {key}", kind
            )
    if joules is not None and run.steps:
        return tile("per step", energy(joules / run.steps), f"{run.steps} steps", kind)
    if run.steps:
        return tile("per step", duration(run.duration_s / run.steps), f"{run.steps} steps")
    return tile("per step", "—", "no step yet" if run.live else "no step")


def _power(run: Overview) -> Any:
    when = "now" if run.live else "on average"
    if run.power_w is None and run.modelled_j is not None and run.duration_s and not run.live:
        return tile(
            "mean power, by a model",
            f"{number(run.modelled_j / run.duration_s)} W",
            "processor and memory",
            "modelled",
        )
    if run.power_w is None:
        return tile(f"power {when}", "—", "not measured")
    cap = f"of {number(run.cap_w)} W cap" if run.cap_w else ""
    return tile(f"power {when}", f"{number(run.power_w)} W", cap)


def _waste(run: Overview) -> Any:
    share = wasted(run)
    return tile(
        "waits or idles",
        "—" if share is None else f"{100 * share:.0f} %",
        "data, other ranks, before and after",
    )


def _carbon(run: Overview) -> Any:
    note = "; ".join(text for text in (run.cost, run.carbon.partition(":")[0]) if text)
    if run.co2e_g is not None:
        return tile("CO2e", f"{number(run.co2e_g)} g", note)
    if run.modelled_co2e_g is not None:
        return tile("CO2e, of the model", f"{number(run.modelled_co2e_g)} g", note, "modelled")
    return tile("CO2e", "—", "when it has ended" if run.live else "not known")


def _coverage(run: Overview) -> Any:
    if run.coverage is None:
        return tile("seen by a meter", "—", "when it has ended" if run.live else "no meter")
    return tile(
        "seen by a meter", f"{100 * run.coverage:.1f} %", "of the run; the rest is extrapolated"
    )


def notices(run: Overview) -> Any:
    """The run's warnings."""
    if not run.warnings:
        return []
    return notice(html.Ul([html.Li(with_code(line)) for line in run.warnings]), "warn")


def meters(run: Overview, rates: Sequence[RateRow]) -> Any:
    """The meters, how busy they say the device was, and what could not be measured."""
    chart = quality(run)
    parts: list[Any] = [html.P(chart.caption, className="caption")]
    if chart.rows:
        parts.append(chart_table(chart, caption="Meters", numbers=(3, 4, 5)))
    busy = activity(rates)
    if busy.rows:
        parts += [
            html.H3("How busy each phase kept the device"),
            html.P(busy.caption, className="caption"),
            chart_table(busy, caption="Activity", numbers=range(2, len(busy.columns))),
        ]
    missing = absent(run)
    if missing:
        parts += [
            html.H3("Not measured"),
            html.Ul(
                [
                    html.Li([html.Strong(what), f": {why} ", html.Code(mend) if mend else ""])
                    for what, why, mend in missing
                ]
            ),
        ]
    if run.machine:
        parts.append(table(["where", ""], run.machine, caption="Machine"))
    return parts
