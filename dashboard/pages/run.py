"""One run: how it stands, which phase burns it, when, and how sure that is."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, Patch, State, ctx, dcc, html, no_update

from probe.errors import ProbeError
from probe.report.numbers import duration, energy, number

from .. import ids, urls
from ..chart_data import Chart, Overview
from ..components import (
    aria,
    badge,
    card,
    notice,
    room,
    shell,
    table,
    tile,
    tiles,
    trouble,
    with_code,
)
from ..context import desk
from ..data.run import OpenRun
from ..figures.phases import most
from ..figures.quality import absent, activity, quality
from ..figures.waste import wasted
from ..run_charts import VIEWS, View, drawn

_EVERY_MS, _SLOW_MS = 500, 5000
_MANY_DEVICES = 24  # more make no readable list of boxes
_EMPTY: dict[str, Any] = {"data": [], "layout": {}}
_HEAD, _METERS = "run-head", "run-meters"
_SLOW = [*(name for name, view in VIEWS.items() if not view.first), _METERS]


def title(run_id: str = "", **_: Any) -> str:
    """Of the browser's tab."""
    return f"{run_id} · phasewatt"


def layout(run_id: str = "", t: str | None = None, d: str | None = None, **_: Any) -> Any:
    """The page of a run; ``t`` and ``d`` as in :class:`urls.State`."""
    of = desk()
    try:
        run = of.library.open(run_id)
        live, devices, seen = run.live, _devices(run), run.seen()
    except (ProbeError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return shell(
            trouble(error),
            dcc.Link("All runs", href=of.href("/")),
            title="This run cannot be shown",
        )
    state = urls.State.of(t, d)
    cards = [
        card(name, view.title, wide=view.wide, extra=_extras(name, of.href, run_id, devices, state))
        for name, view in VIEWS.items()
    ]
    return shell(
        dcc.Store(id=ids.RUN, data=run_id),
        dcc.Store(id=ids.SPAN, data=state.query()),
        dcc.Store(id=ids.LATER),
        dcc.Store(id=ids.SEEN, data=seen),
        *(dcc.Store(id=ids.slow(name), data=seen) for name in _SLOW),
        dcc.Interval(id=ids.TICK, interval=_EVERY_MS, disabled=not live),
        dcc.Interval(id=ids.SLOW_TICK, interval=_SLOW_MS),
        html.Div(id=_HEAD),
        html.Div(id=ids.STRIP),
        html.Div(id=ids.NOTICES),
        html.Div(cards, className="cards"),
        html.Section(
            [html.H2("How well it was measured"), html.Div(id=_METERS)], className="card wide"
        ),
        wide=True,
    )


def _extras(
    name: str, href: Any, run_id: str, devices: Sequence[str], state: urls.State
) -> list[Any]:
    """Above the power chart: which part of the run, which devices.

    They are links, to be opened beside or shared; a plain click is ``page.js``'s, which changes the
    address and the charts without asking for the page again.
    """
    if name != "power":
        return []

    def link(label: str, to: urls.State, on: bool, **data: str) -> Any:
        return html.A(
            label,
            href=href(urls.run(run_id, to)),
            className="on" if on else "",
            **aria(current="true" if on else "false"),
            **_data(data),
        )

    spans = [("whole run", state.everything())]
    spans += [
        (label, urls.State(None, seconds, state.devices))
        for label, seconds in (("last minute", 60.0), ("last 10 min", 600.0))
    ]
    links = [link(label, one, one == state, t=one.query().get("t", "")) for label, one in spans]
    extra: list[Any] = [html.Nav(links, className="spans", **aria(label="Part of the run"))]
    if 1 < len(devices) <= _MANY_DEVICES:
        boxes = [link("all devices", replace(state, devices=()), not state.devices, d="")]
        for device in devices:
            only = tuple(one for one in devices if (one in state.devices) != (one == device))
            boxes.append(
                link(device, replace(state, devices=only), device in state.devices, d=device)
            )
        extra.append(html.Nav(boxes, className="spans", **aria(label="Devices")))
    return extra


def _data(values: Mapping[str, str]) -> dict[str, Any]:
    return {f"data-{key}": value for key, value in values.items()}


def _devices(run: OpenRun) -> list[str]:
    from ..data.power import speaking

    return [meter.source.device for meter in speaking(run.meters())]


def register(app: Dash) -> None:
    """What is shown follows the run; a chart over time follows its zoom and the devices."""

    @app.callback(
        Output(_HEAD, "children"),
        Output(ids.STRIP, "children"),
        Output(ids.NOTICES, "children"),
        Output(ids.SEEN, "data"),
        Output(ids.TICK, "disabled"),
        Input(ids.RUN, "data"),
        Input(ids.TICK, "n_intervals"),
        Input(ids.SLOW_TICK, "n_intervals"),
        State(ids.SEEN, "data"),
    )
    def follow(run_id: Any, _tick: Any, _slow: Any, seen: Any) -> Any:
        try:
            run = desk().library.open(str(run_id))
            stamp = run.seen()
            first = not ctx.triggered_id or ctx.triggered_id == ids.RUN
            if stamp == seen and not first:
                return (no_update,) * 5
            overview = run.overview()
        except (ProbeError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            gone = f"gone {type(error).__name__}"
            if gone == seen:
                return (no_update,) * 5
            lost = trouble(f"{error}. What is below is what was last seen of it.")
            return no_update, no_update, lost, gone, True
        told = no_update if stamp == seen else stamp
        over = no_update if overview.live else True
        return _head(overview), strip(overview), _notices(overview), told, over

    for name, view in VIEWS.items():
        _follow(app, name, view)
    app.clientside_callback(
        ClientsideFunction("phasewatt", "later"),
        Output(ids.LATER, "data"),
        Input(ids.graph("power"), "figure"),
        State(ids.RUN, "data"),
        State(ids.SPAN, "data"),
        State(ids.LATER, "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("phasewatt", "slowly"),
        [Output(ids.slow(name), "data") for name in _SLOW],
        Input(ids.SLOW_TICK, "n_intervals"),
        Input(ids.TICK, "disabled"),
        State(ids.SEEN, "data"),
        *(State(ids.slow(name), "data") for name in _SLOW),
        prevent_initial_call=True,
    )
    zoomed = [name for name, view in VIEWS.items() if view.time and name != "anatomy"]
    app.clientside_callback(
        ClientsideFunction("phasewatt", "zoomed"),
        Output(ids.SPAN, "data"),
        *(Input(ids.graph(name), "relayoutData") for name in zoomed),
        *(State(ids.graph(name), "figure") for name in zoomed),
        State(ids.SPAN, "data"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output(_METERS, "children"),
        Input(ids.LATER, "data"),
        Input(ids.slow(_METERS), "data"),
        State(ids.RUN, "data"),
        prevent_initial_call=True,
    )
    def meters(_later: Any, _seen: Any, run_id: Any) -> Any:
        try:
            run = desk().library.open(str(run_id))
            return _meters(run.overview(), run.rates())
        except Exception as error:
            return trouble(said(error))


def _follow(app: Dash, name: str, view: View) -> None:
    """Draw a chart at once, and again when there is something new or another part is looked at.

    Two callbacks: one that also followed ``SEEN`` would wait for it before it drew at all.
    """
    told = (
        Output(ids.graph(name), "figure"),
        Output(ids.caption(name), "children"),
        Output({"type": "plot", "view": name}, "style"),
        Output(ids.links(name) | {"kind": "table"}, "href"),
        Output(ids.links(name) | {"kind": "csv"}, "href"),
    )
    again = [Output(one.component_id, one.component_property, allow_duplicate=True) for one in told]

    if view.first:

        @app.callback(*told, Input(ids.RUN, "data"), State(ids.SPAN, "data"))
        def draw(run_id: Any, asked: Any) -> Any:
            return _answer(name, run_id, asked, whole=True)
    else:

        @app.callback(*told, Input(ids.LATER, "data"), prevent_initial_call=True)
        def draw_later(asked: Any) -> Any:
            asked = asked if isinstance(asked, dict) else {}
            return _answer(name, asked.get("run"), asked, whole=True)

    @app.callback(
        *again,
        Input(ids.SEEN if view.first else ids.slow(name), "data"),
        Input(ids.SPAN, "data") if view.first and view.time else State(ids.SPAN, "data"),
        State(ids.RUN, "data"),
        prevent_initial_call=True,
    )
    def follow(_seen: Any, asked: Any, run_id: Any) -> Any:
        return _answer(name, run_id, asked, whole=False)


def _answer(name: str, run_id: Any, asked: Any, *, whole: bool) -> Any:
    asked = asked if isinstance(asked, dict) else {}
    state = urls.State.of(asked.get("t"), asked.get("d"))
    of = desk()
    try:
        chart = drawn(of.library.open(str(run_id)), name, state)
    except Exception as error:
        # One chart that cannot be drawn must not take the others with it; what is drawn stays.
        drawn_ = (_EMPTY, said(error), room(None)) if whole else (no_update, said(error), no_update)
        return *drawn_, no_update, no_update
    links = [of.href(urls.data(kind, str(run_id), name, state)) for kind in (urls.TABLE, urls.CSV)]
    return _drawn(chart, whole=whole), chart.caption, room(chart), *links


def _drawn(chart: Chart, *, whole: bool) -> Any:
    """Whole at first; later only what changed, so that zoom and hover stay."""
    if whole or chart.figure is None:
        return chart.figure or _EMPTY
    patch = Patch()
    patch["data"] = chart.figure["data"]
    patch["layout"] = chart.figure["layout"]
    return patch


def said(error: Exception) -> str:
    """What went wrong, in one line; what nobody foresaw goes to the server's log, too."""
    if isinstance(error, ProbeError):
        return f"{error}."
    place = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"dashboard: {type(error).__name__}: {error} ({place.filename}:{place.lineno})"[:500],
        file=sys.stderr,
        flush=True,
    )
    return f"This cannot be shown: {type(error).__name__}."


def _head(run: Overview) -> Any:
    ended = f" ({run.ended_by})" if run.ended_by else ""
    steps = f", {run.steps} steps" if run.steps else ""
    ranks: list[Any] = []
    if run.ranks > 1:
        ranks = [", ", dcc.Link(f"{run.ranks} ranks", href=desk().href(urls.ranks(run.id)))]
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
    found = most(run)
    verdict: Any = ""
    if found is not None:
        row, share, what = found
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


def _notices(run: Overview) -> Any:
    if not run.warnings:
        return []
    return notice(html.Ul([html.Li(with_code(line)) for line in run.warnings]), "warn")


def _meters(run: Overview, rates: Sequence[Mapping[str, Any]]) -> Any:
    chart = quality(run)
    told: list[Any] = [html.P(chart.caption, className="caption")]
    if chart.rows:
        told.append(
            table([c.label for c in chart.columns], chart.rows, caption="Meters", numbers=(3, 4, 5))
        )
    busy = activity(rates)
    if busy.rows:
        told += [
            html.H3("How busy each phase kept the device"),
            html.P(busy.caption, className="caption"),
            table(
                [c.label for c in busy.columns],
                busy.rows,
                caption="Activity",
                numbers=range(2, len(busy.columns)),
            ),
        ]
    missing = absent(run)
    if missing:
        told += [
            html.H3("Not measured"),
            html.Ul(
                [
                    html.Li([html.Strong(what), f": {why} ", html.Code(mend) if mend else ""])
                    for what, why, mend in missing
                ]
            ),
        ]
    if run.machine:
        told.append(table(["where", ""], run.machine, caption="Machine"))
    return told
