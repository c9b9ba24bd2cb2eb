"""What every format of a comparison says: a heading, tables of cells, sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...report.numbers import number
from ...report.sentences import short
from ...report.text_tables import Table, between, joules, mebibytes, percent, seconds

_LONGEST = 100
_FOUR = {
    "early": "early training",
    "gradient": "gradient-heavy",
    "memory": "memory-bound",
    "communication": "communication",
    "rest": "the rest",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One other side: what it is, its verdict, its tables, remarks."""

    heading: str
    verdict: str
    tables: Sequence[Table]
    remarks: Sequence[str]


def what(comparison: dict[str, Any]) -> str:
    """The question in one line."""
    base, target = comparison["base"], comparison["target"]
    runs = _runs(base)
    if target is None:
        asked = f"the same work ({comparison['unit']})"
    else:
        asked = f"until {target['metric']} {target['direction']} {number(target['value'])}"
    return f"base {short(base['name'], _LONGEST)}, {runs}; {asked}; positive is saved"


def parts(comparison: dict[str, Any]) -> list[Part]:
    """One for every other side."""
    return [_part(one) for one in comparison["comparisons"]]


def _part(one: dict[str, Any]) -> Part:
    other = one["other"]
    paired = ", in blocks with the base's" if one["paired"] else ""
    tables = [_totals(one)]
    if one["cells"]:
        tables.append(_cells(one))
    if one["four"]:
        tables.append(_four(one))
    if one["scaling"]:
        tables.append(_scaling(one["scaling"]))
    if one["memory_bytes"].get("components"):
        tables.append(_memory(one))
    heading = f"{short(other['name'], _LONGEST)}, {_runs(other)}{paired}"
    return Part(heading, _verdict(one), tables, _remarks(one))


def _runs(side: dict[str, Any]) -> str:
    return f"{len(side['ids'])} run{'s' if len(side['ids']) > 1 else ''}"


def _verdict(one: dict[str, Any]) -> str:
    if one["verdict"] == "no evidence":
        return f"no evidence: {short(one['reason'], 3 * _LONGEST)}"
    by_time = one["verdict_by"] == "time"
    leading = one["time_s" if by_time else "energy_j"]["percent"]
    much = "" if leading is None else f": {percent(abs(leading))}"
    return f"{one['verdict']} of {one['verdict_by']}{much}" + (
        "; energy was not measured" if by_time else ""
    )


def _totals(one: dict[str, Any]) -> Table:
    kinds: list[tuple[str, dict[str, Any], Callable[[float | None], str]]] = [
        ("time", one["time_s"], seconds),
        ("energy", one["energy_j"], joules),
        ("peak memory", one["memory_bytes"], mebibytes),
    ]
    rows = []
    for name, g, said in kinds:
        if g["gain"] is None and g.get("bound") is None:
            if name != "peak memory":
                silent = name == "energy" and g["provenance"] is None
                rows.append(
                    [name, "—", "—", "not measured" if silent else "not known", "", "", "", "", ""]
                )
            continue
        modelled = g.get("provenance") == "modelled"
        gained = (
            said(g["gain"])
            if g["gain"] is not None
            else (f"{g['bound']['is']} {said(g['bound']['gain'])}")
        )
        rows.append(
            [
                f"{name} (modelled)" if modelled else name,
                said(g.get("base")),
                said(g.get("other")),
                gained,
                percent(g["percent"]),
                between(g["interval"], said),
                *(said(g[part]) if g["progress"] else "" for part in ("progress", "cost")),
                "no verdict on a model" if modelled else _called(g),
            ]
        )
    return Table(
        "",
        ["", "base", "other", "gain", "", "95 % interval", "of it progress", "cost", "verdict"],
        rows,
        frozenset({0, 8}),
    )


def _called(g: dict[str, Any]) -> str:
    """The verdict, and that of its parts where they say more."""
    told = [str(g["verdict"])]
    told += [
        f"{g[f'{part}_verdict']} of {part}"
        for part in ("progress", "cost")
        if g.get(f"{part}_verdict", "no evidence") not in ("no evidence", g["verdict"])
    ]
    return ", ".join(told)


def _cells(one: dict[str, Any]) -> Table:
    """By energy where it was measured, else by time."""
    measured = one["energy_j"]["provenance"] == "measured"
    rows = []
    for cell in one["cells"]:
        row = [cell["stage"], cell["class"], ", ".join(cell["phases"]), seconds(cell["time_s"])]
        if measured:
            row += [
                joules(cell["energy_j"]),
                between(cell["energy_j_interval"], joules),
                *(
                    joules(cell[part]) if cell["progress_j"] else ""
                    for part in ("progress_j", "cost_j")
                ),
            ]
        else:
            row.append(between(cell["time_s_interval"], seconds))
        verdict = cell["verdict"] if measured else cell["time_verdict"]
        share = percent(100 * cell["share"]) if cell["share"] is not None else ""
        rows.append([*row, share, _status(cell, verdict)])
    head = ["stage", "class", "phases", "time"]
    head += ["energy", "95 % interval", "progress", "cost"] if measured else ["95 % interval"]
    return Table(
        "where it lies", [*head, "share", "verdict"], rows, frozenset({0, 1, 2, len(head) + 1})
    )


def _status(cell: dict[str, Any], verdict: str) -> str:
    if cell["provenance"] != "estimated":
        return verdict
    if cell["bounds_j"]:
        return f"cannot be told apart, bounds {between(cell['bounds_j'], joules)}"
    missing = f"; without {', '.join(cell['refused'])}" if cell["refused"] else ""
    return f"{verdict}{missing}"


def _four(one: dict[str, Any]) -> Table:
    rows = []
    for name, share in one["four"].items():
        limits = one["four_intervals"][name]
        known = between([100 * v for v in limits], percent) if limits else "not bounded"
        rows.append(
            [_FOUR[name], percent(100 * share), known] if share else [_FOUR[name], "none", ""]
        )
    return Table(
        f"the {one['verdict']} of {one['four_of']} by kind of phase",
        ["", "share", "95 % interval"],
        rows,
    )


def _memory(one: dict[str, Any]) -> Table:
    rows = [
        [row["component"], mebibytes(row["base"]), mebibytes(row["other"])]
        for row in one["memory_bytes"]["components"]
    ]
    return Table("memory at each side's peak", ["", "base", "other"], rows)


def _scaling(rows: list[dict[str, Any]]) -> Table:
    unit = rows[0]["unit"]
    return Table(
        "scaling over ranks",
        [
            "ranks",
            "runs",
            "throughput",
            "efficiency",
            f"energy per {unit.removesuffix('s')}",
            "communication",
        ],
        [
            [
                str(row["ranks"]),
                str(row["runs"]),
                f"{number(row['throughput'])} {unit}/s",
                percent(100 * row["efficiency"]),
                "not measured"
                if row["energy_per_sample_j"] is None
                else joules(row["energy_per_sample_j"]),
                percent(100 * row["communication"])
                if row["communication"] is not None
                else "—"
                if row["ranks"] == 1
                else "inside other phases",
            ]
            for row in rows
        ],
    )


def _remarks(one: dict[str, Any]) -> list[str]:
    told = []
    quality = one["quality"]
    if quality["base"] is not None:
        change = percent(quality["difference_percent"])
        told.append(
            f"{quality['metric']} {number(quality['base'])} → {number(quality['other'])} "
            f"({change}), {'no worse than allowed' if quality['ok'] else 'worse'}"
        )
    elif quality["metric"] is None:
        told.append("no metric of quality was logged, so nothing says that the other is as good")
    costs = [
        f"{cell['stage']} {cell['class']}"
        for cell in one["cells"]
        if "loss" in (cell["verdict"], cell["cost_verdict"])
    ]
    if costs and one["verdict"] == "gain":
        told.append(f"it costs more in {', '.join(costs)}")
    marks = [
        f"{percent(100 * row['share'])} after {100 * row['share_of_samples']:.0f} %"
        for row in one["early_at"]
        if row["share"] is not None
    ]
    if one["four"] and marks:
        told.append(f"if early training ended elsewhere in the base's samples: {', '.join(marks)}")
    if one["cells"]:
        told.append(
            "verdicts of single lines are adjusted for asking about all of them at once "
            "(Holm), their intervals are not"
        )
    told += [
        f"{row['phase']}: {100 * row['memory_bound_base']:.0f} % memory-bound in the base, "
        f"{100 * row['memory_bound_other']:.0f} % here; the base's class is used for both"
        for row in one["moved"]
    ]
    return told
