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
    """One part for every other side."""
    return [_part(other) for other in comparison["comparisons"]]


def _part(comparison: dict[str, Any]) -> Part:
    other = comparison["other"]
    paired = ", in blocks with the base's" if comparison["paired"] else ""
    tables = [_totals(comparison)]
    if comparison["cells"]:
        tables.append(_cells(comparison))
    if comparison["four"]:
        tables.append(_four(comparison))
    if comparison["scaling"]:
        tables.append(_scaling(comparison["scaling"]))
    if comparison["memory_bytes"].get("components"):
        tables.append(_memory(comparison))
    heading = f"{short(other['name'], _LONGEST)}, {_runs(other)}{paired}"
    return Part(heading, _verdict(comparison), tables, _remarks(comparison))


def _runs(side: dict[str, Any]) -> str:
    return f"{len(side['ids'])} run{'s' if len(side['ids']) > 1 else ''}"


def _verdict(comparison: dict[str, Any]) -> str:
    if comparison["verdict"] == "no evidence":
        return f"no evidence: {short(comparison['reason'], 3 * _LONGEST)}"
    by_time = comparison["verdict_by"] == "time"
    leading = comparison["time_s" if by_time else "energy_j"]["percent"]
    much = "" if leading is None else f": {percent(abs(leading))}"
    return f"{comparison['verdict']} of {comparison['verdict_by']}{much}" + (
        "; energy was not measured" if by_time else ""
    )


def _totals(comparison: dict[str, Any]) -> Table:
    kinds: list[tuple[str, dict[str, Any], Callable[[float | None], str]]] = [
        ("time", comparison["time_s"], seconds),
        ("energy", comparison["energy_j"], joules),
        ("peak memory", comparison["memory_bytes"], mebibytes),
    ]
    rows = []
    for name, g, word in kinds:
        if g["gain"] is None and g.get("bound") is None:
            if name != "peak memory":
                silent = name == "energy" and g["provenance"] is None
                rows.append(
                    [name, "—", "—", "not measured" if silent else "not known", "", "", "", "", ""]
                )
            continue
        modelled = g.get("provenance") == "modelled"
        gained = (
            word(g["gain"])
            if g["gain"] is not None
            else (f"{g['bound']['is']} {word(g['bound']['gain'])}")
        )
        rows.append(
            [
                f"{name} (modelled)" if modelled else name,
                word(g.get("base")),
                word(g.get("other")),
                gained,
                percent(g["percent"]),
                between(g["interval"], word),
                *(word(g[part]) if g["progress"] else "" for part in ("progress", "cost")),
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
    words = [str(g["verdict"])]
    words += [
        f"{g[f'{part}_verdict']} of {part}"
        for part in ("progress", "cost")
        if g.get(f"{part}_verdict", "no evidence") not in ("no evidence", g["verdict"])
    ]
    return ", ".join(words)


def _cells(comparison: dict[str, Any]) -> Table:
    """By energy where it was measured, else by time."""
    measured = comparison["energy_j"]["provenance"] == "measured"
    rows = []
    for cell in comparison["cells"]:
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


def _four(comparison: dict[str, Any]) -> Table:
    rows = []
    for name, share in comparison["four"].items():
        limits = comparison["four_intervals"][name]
        interval = between([100 * v for v in limits], percent) if limits else "not bounded"
        rows.append(
            [_FOUR[name], percent(100 * share), interval] if share else [_FOUR[name], "none", ""]
        )
    return Table(
        f"the {comparison['verdict']} of {comparison['four_of']} by kind of phase",
        ["", "share", "95 % interval"],
        rows,
    )


def _memory(comparison: dict[str, Any]) -> Table:
    rows = [
        [row["component"], mebibytes(row["base"]), mebibytes(row["other"])]
        for row in comparison["memory_bytes"]["components"]
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


def _remarks(comparison: dict[str, Any]) -> list[str]:
    remarks = []
    quality = comparison["quality"]
    if quality["base"] is not None:
        change = percent(quality["difference_percent"])
        remarks.append(
            f"{quality['metric']} {number(quality['base'])} → {number(quality['other'])} "
            f"({change}), {'no worse than allowed' if quality['ok'] else 'worse'}"
        )
    elif quality["metric"] is None:
        remarks.append("no metric of quality was logged, so nothing says that the other is as good")
    costs = [
        f"{cell['stage']} {cell['class']}"
        for cell in comparison["cells"]
        if "loss" in (cell["verdict"], cell["cost_verdict"])
    ]
    if costs and comparison["verdict"] == "gain":
        remarks.append(f"it costs more in {', '.join(costs)}")
    marks = [
        f"{percent(100 * row['share'])} after {100 * row['share_of_samples']:.0f} %"
        for row in comparison["early_at"]
        if row["share"] is not None
    ]
    if comparison["four"] and marks:
        remarks.append(
            f"if early training ended elsewhere in the base's samples: {', '.join(marks)}"
        )
    if comparison["cells"]:
        remarks.append(
            "verdicts of single lines are adjusted for asking about all of them at once "
            "(Holm), their intervals are not"
        )
    remarks += [
        f"{row['phase']}: {100 * row['memory_bound_base']:.0f} % memory-bound in the base, "
        f"{100 * row['memory_bound_other']:.0f} % here; the base's class is used for both"
        for row in comparison["moved"]
    ]
    return remarks
