"""What a run's page says in words and numbers: how the run stands, and how well it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dash import html

from probe.model import Provenance
from probe.report import usage_tables
from probe.report.answer import answer
from probe.report.model import RateRow, Report
from probe.report.numbers import duration, energy, energy_with_error, number, unbroken, watts
from probe.report.numbers import share as share_text
from probe.report.sentences import begun, machine, tariffs, worth
from probe.simulated_card import WORD

from ..components import badge, chart_table, notice, table, tile, tiles, with_code
from ..figures.quality import absent, quality
from ..figures.waste import wasted


def head(report: Report) -> Any:
    """The answer, what it rests on, then which run it is and how long it took."""
    run, first = report.run, answer(report)
    ended = f" ({run.ended_by})" if run.ended_by else ""
    steps = f", {run.steps} steps" if run.steps else ""
    return html.Header(
        [
            html.H1(unbroken(first.headline)),
            html.P(unbroken(first.used), className="used"),
            html.P(with_code(first.limit), className="limit") if first.limit else "",
            html.P(
                [
                    badge(run.status),
                    html.Strong(f" {run.title} "),
                    f"{ended} {'after' if report.final else 'for'} {duration(run.duration_s)}"
                    f"{steps}, {begun(run.started)} on {run.host} ",
                    html.Code(run.id),
                ],
                className="soft",
            ),
        ]
    )


def strip(report: Report, limit_w: float | None = None) -> Any:
    """Good or bad, and how sure: six figures at the top.

    Args:
        limit_w: the devices' power limits together, of a live run.
    """
    return tiles(
        [
            _energy(report),
            _each(report),
            _power(report, limit_w),
            _waste(report),
            _carbon(report),
            _coverage(report),
        ]
    )


def _energy(report: Report) -> Any:
    total = report.total
    if total.energy_j is not None:
        limits = total.energy_j_interval
        label = f"energy, {WORD if report.run.simulated else 'measured'}"
        if limits is None:
            return tile(label, energy(total.energy_j), "so far")
        half = (limits[1] - limits[0]) / 2
        return tile(label, energy_with_error(total.energy_j, half), "95 %")
    if total.modelled_energy_j is not None:
        joules = energy(total.modelled_energy_j)
        return tile("energy, by a model", joules, "no meter was found", "modelled")
    return tile("energy", "not known", "no meter" if report.final else "waiting for a meter")


def _each(report: Report) -> Any:
    run, joules = report.run, report.total.energy_j
    kind = ""
    if joules is None:
        joules, kind = report.total.modelled_energy_j, "modelled"
    for key, unit in (("samples", "sample"), ("tokens", "token")):
        logged = report.values.get(key)
        if joules is not None and logged is not None and logged.sum:
            return tile(f"per {unit}", energy(joules / logged.sum), f"{logged.sum:.0f} {key}", kind)
    if joules is not None and run.steps:
        return tile("per step", energy(joules / run.steps), f"{run.steps} steps", kind)
    if run.steps:
        return tile("per step", duration(run.duration_s / run.steps), f"{run.steps} steps")
    return tile("per step", "—", "no step" if report.final else "no step yet")


def _power(report: Report, limit_w: float | None) -> Any:
    run, total = report.run, report.total
    if not report.final:
        now = [row.power_w[-1] for row in report.power if row.provenance is Provenance.MEASURED]
        readings_w = [value for value in now if value is not None]
        if not readings_w or len(readings_w) < len(now):
            return tile("power now", "—", "not measured")
        return tile(
            "power now", watts(sum(readings_w)), f"of {watts(limit_w)} cap" if limit_w else ""
        )
    if total.energy_j is not None and run.duration_s:
        return tile("mean power", watts(total.energy_j / run.duration_s), "of all devices")
    if total.modelled_energy_j is not None and run.duration_s:
        mean = watts(total.modelled_energy_j / run.duration_s)
        return tile("mean power, by a model", mean, "processor and memory", "modelled")
    return tile("mean power", "—", "not measured")


def _waste(report: Report) -> Any:
    waste = wasted(report)
    if waste is None:
        return tile("waiting or idle", "—", "data, other ranks, before and after")
    share, of = waste
    return tile("waiting or idle", f"{100 * share:.0f} %", f"of the {of}: data, other ranks")


def _carbon(report: Report) -> Any:
    total = report.total
    tariff = "; ".join(tariffs(report)).partition(":")[0]
    cost = worth(replace(total, co2e_g=None), report.cost)
    note = "; ".join(text for text in (*cost, tariff) if text)
    if total.co2e_g is not None:
        return tile("CO2e", f"{number(total.co2e_g)} g", note)
    if total.modelled_co2e_g is not None:
        return tile("CO2e, of the model", f"{number(total.modelled_co2e_g)} g", note, "modelled")
    return tile("CO2e", "—", "no intensity is known")


def _coverage(report: Report) -> Any:
    coverage = report.total.coverage
    if coverage is None:
        metered = len({row.device for row in report.sources if row.in_total})
        devices = f"{metered} device{'s' * (metered != 1)}" if metered else "—"
        return tile("metered", devices, "so far" if metered else "no meter")
    return tile("metered", share_text(coverage), "of the run; the rest is extrapolated")


def notices(report: Report) -> Any:
    """The run's warnings, but for what the first lines say already."""
    first = answer(report)
    lines = [line for line in report.warnings if line != report.run.note and not first.states(line)]
    if not lines:
        return []
    return notice(html.Ul([html.Li(with_code(line)) for line in lines]), "warn")


def _usage(report: Report) -> list[Any]:
    """Activity, CPU cores and memory by phase, in the tables of the written report."""
    tables = [
        *usage_tables.activity(report),
        *usage_tables.gpu_memory(report),
        *usage_tables.processes(report),
    ]
    parts: list[Any] = []
    for shown in tables:
        numbers = [i for i in range(len(shown.head)) if i not in shown.text]
        parts += [
            html.H4(shown.title),
            table(shown.head, shown.rows, caption=shown.title, numbers=numbers),
        ]
    lines = usage_tables.growth(report)
    if not parts:
        return []
    caption = (
        "Activity and CPU cores are attributed like energy, with 95 % intervals; a dash cannot be "
        "told apart. A peak may be higher between two looks: a range says by how much."
    )
    return [
        html.H3("Memory and utilisation"),
        html.P(caption, className="caption"),
        *parts,
        *(html.P(line, className="caption") for line in lines),
    ]


def meters(report: Report, rates: Sequence[RateRow]) -> Any:
    """The meters, what else the phases used, and what could not be measured.

    Args:
        rates: of a run that has ended; a live report has its own.
    """
    chart = quality(report)
    parts: list[Any] = [html.P(chart.caption, className="caption")]
    if chart.rows:
        parts.append(chart_table(chart, caption="Meters", numbers=(3, 4, 5)))
    parts += _usage(report if not report.final else replace(report, rates=tuple(rates)))
    missing = absent(report)
    if missing:
        parts += [
            html.H3("Not measured"),
            html.Ul(
                [
                    html.Li([html.Strong(what), f": {why} ", html.Code(remedy) if remedy else ""])
                    for what, why, remedy in missing
                ]
            ),
        ]
    if report.final:
        where = machine(report.machine, report.sources, report.run.host, report.torch)
        parts.append(table(["where", ""], where, caption="Machine"))
    return parts
