"""An ablation as text for a terminal."""

from __future__ import annotations

from typing import Any

from probe.compare.reasons import CONTAINS_ZERO
from probe.report.text_tables import Table, between, joules, percent, seconds


def render(result: dict[str, Any]) -> str:
    """The ablation as text: whether it is sound, then a row for every technique."""
    lines = [_headline(result), _soundness(result), ""]
    kinds = {"cumulative": _cumulative, "leave-one-out": _left_out, "shapley": _shapley}
    for table in kinds[result["design"]](result):
        lines += [*table.lines(), ""]
    lines += [
        f"! {name} is worse in quality than the baseline, so no gain is called one"
        for name in (result.get("shapley") or {}).get("worse_in_quality") or []
    ]
    lines += [f"{name}: {why}" for name, why in _reasons(result)]
    if result.get("missing"):
        lines.append(f"! {result['missing']} trials are still to be run")
    return "\n".join(lines).rstrip()


def _headline(result: dict[str, Any]) -> str:
    work = "the same work" if result["mode"] == "equal_work" else "cost to the target"
    return (
        f"ablation of {', '.join(result['techniques'])}: {result['design']}, "
        f"{result['blocks']} blocks, {work}; positive is saved"
    )


def _soundness(result: dict[str, Any]) -> str:
    nothing = result["no_op"]
    parts = [f"time {_gained(nothing['time_s'], seconds)}"]
    if nothing["energy_j"]["provenance"] == "measured":
        parts.append(f"energy {_gained(nothing['energy_j'], joules)}")
    line = f"no-op (the baseline again): {', '.join(parts)}"
    if result["sound"] is None:
        return f"{line}; whether the ablation is sound cannot be told ({nothing['reason']})"
    if result["sound"]:
        return f"{line}: holds zero, as it must"
    return f"{line}\n! UNSOUND: doing nothing made a difference, so no figure below can be trusted"


def _reasons(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Why a technique has no verdict, where it is more than an interval that contains zero."""
    rows = [(f"+ {row['technique']}", row["step"]) for row in result.get("steps", [])]
    rows += [(row["technique"], row["gain"]) for row in result.get("left_out", [])]
    return [
        (name, reason["reason"])
        for name, reason in rows
        if reason["reason"] and not reason["reason"].endswith(CONTAINS_ZERO)
    ]


def _gained(gain: dict[str, Any], formatted: Any) -> str:
    if gain["gain"] is None:
        return "not known"
    if gain["interval"] is None:
        return str(formatted(gain["gain"]))
    return f"{formatted(gain['gain'])} ({between(gain['interval'], formatted)})"


def _cumulative(result: dict[str, Any]) -> list[Table]:
    rows: list[list[str]] = [["baseline", *_side(result["no_op"], "base"), *[""] * 6]]
    for row in result["steps"]:
        step, all_ = row["step"], row["in_all"]
        time, energy = step["time_s"], step["energy_j"]
        rows.append(
            [
                f"+ {row['technique']}",
                *_side(step, "other"),
                _percent(time),
                _verdict(time),
                _percent(energy),
                _verdict(energy),
                _percent(all_["time_s"]),
                _percent(all_["energy_j"]),
            ]
        )
    return [
        Table(
            "one after the other, means of all blocks",
            [
                "",
                "time",
                "energy",
                "peak memory",
                "quality",
                "its time gain",
                "",
                "its energy gain",
                "",
                "all so far: time",
                "energy",
            ],
            rows,
            frozenset({0, 6, 8}),
        )
    ]


def _side(comparison: dict[str, Any], side: str) -> list[str]:
    quality = comparison["quality"][side]
    memory = comparison["memory_bytes"].get(side)
    energy = comparison["energy_j"]
    return [
        seconds(comparison["time_s"].get(side)),
        joules(energy.get(side)) + (" modelled" if energy["provenance"] == "modelled" else ""),
        "—" if memory is None else f"{memory / 2**20:.0f} MiB",
        "—" if quality is None else f"{quality:.4g}",
    ]


def _percent(gain: dict[str, Any]) -> str:
    """Of the base; a bound where a target was missed."""
    return "not known" if gain["gain"] is None else percent(gain["percent"])


def _verdict(gain: dict[str, Any]) -> str:
    return "modelled" if gain.get("provenance") == "modelled" else str(gain["verdict"])


def _left_out(result: dict[str, Any]) -> list[Table]:
    rows = []
    for row in [{"technique": "all of them", "gain": result["all"]}, *result["left_out"]]:
        time, energy = row["gain"]["time_s"], row["gain"]["energy_j"]
        rows.append(
            [
                row["technique"],
                _gained(time, seconds),
                percent(time["percent"]),
                _verdict(time),
                _gained(energy, joules),
                percent(energy["percent"]),
                _verdict(energy),
            ]
        )
    return [
        Table(
            "what each saves beside all others",
            ["", "time", "", "", "energy", "", ""],
            rows,
            frozenset({0, 3, 6}),
        )
    ]


def _shapley(result: dict[str, Any]) -> list[Table]:
    values = result["shapley"]
    if values["refused"]:
        return [Table("no Shapley values", ["why"], [[values["refused"]]])]
    tables = []
    for key, formatted, what in (("time_s", seconds, "time"), ("energy_j", joules, "energy")):
        if values[key] is None:
            continue
        cells = [f"{cell['stage']} {cell['class']}" for cell in values["cells"]]
        rows = [
            [
                row["technique"],
                formatted(row["gain"]),
                between(row["interval"], formatted) if row["interval"] else "",
                row["verdict"],
                *(formatted(cell["gain"]) for cell in row["cells"]),
            ]
            for row in values[key]["techniques"]
        ]
        total = [
            _sum([row["cells"][i]["gain"] for row in values[key]["techniques"]])
            for i in range(len(cells))
        ]
        every = _sum([row["gain"] for row in values[key]["techniques"]])
        rows.append(["all of them", formatted(every), "", "", *map(formatted, total)])
        tables.append(
            Table(
                f"{what} saved, Shapley values ({_orders(values)})",
                ["", "saved", "95 % interval", "verdict", *cells],
                rows,
                frozenset({0, 3}),
            )
        )
        pairs = [row for row in values[key]["interactions"] if row["verdict"] != "no evidence"]
        if pairs:
            tables.append(
                Table(
                    f"{what}: together they save more or less than apart",
                    ["", "more", "95 % interval"],
                    [
                        [
                            " and ".join(row["techniques"]),
                            formatted(row["gain"]),
                            between(row["interval"], formatted),
                        ]
                        for row in pairs
                    ],
                )
            )
    return tables


def _sum(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def _orders(numbers: dict[str, Any]) -> str:
    if not numbers["exact"]:
        return f"{numbers['orders']} orders sampled in each block"
    if numbers["valid_orders_only"]:
        return f"over the {numbers['orders']} orders that pass through stacks that can run"
    return f"over all {numbers['orders']} orders"
