"""The report as Markdown, fit for a comment that a CI job keeps up to date."""

from __future__ import annotations

from typing import Any

from .digits import duration, energy, interval, number

MARKER = "<!-- phasewatt report -->"  # stable: a job finds the comment that it wrote before
_LONGEST = 120


def render(report: dict[str, Any]) -> str:
    """Under 60 lines: totals, a table per device, meters, warnings."""
    run, total = report["run"], report["total"]
    lines = [MARKER, f"### {_cell(run['name'] or run['id'])}: {_headline(total)}", ""]
    steps = f", {run['steps']} steps" if run["steps"] else ""
    why = f" ({_cell(run['ended_by'])})" if run["ended_by"] else ""
    lines += [f"{run['status']}{why} after {duration(run['duration_s'])}{steps}; `{run['id']}`", ""]
    if total["modelled_energy_j"] is not None:
        lines += [f"Besides, {energy(total['modelled_energy_j'])} of CPU and RAM by a model, not "
                  "measured.", ""]
    for device in dict.fromkeys(row["device"] for row in report["phases"]):
        lines += _table(device, [r for r in report["phases"] if r["device"] == device])
    if report["warnings"]:
        lines += [f"- {_cell(line)}" for line in report["warnings"][:10]]
    return "\n".join(lines).rstrip()


def _headline(total: dict[str, Any]) -> str:
    if total["energy_j"] is None:
        return "no energy meter"
    low, high = total["energy_j_interval"]
    half = (high - low) / 2
    text = f"{energy(total['energy_j'], half)} ± {energy(half, half)}"
    if total["co2e_g"] is not None:
        text += f", {number(total['co2e_g'])} g CO2e"
    return text


def _table(device: str, rows: list[dict[str, Any]]) -> list[str]:
    whole = sum(row["time_s"] for row in rows if row["phase"] != "unresolved") or 1.0
    lines = [f"| {_cell(device)} | time | share | energy | 95 % interval | power | how |",
             "| --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    for row in sorted(rows, key=lambda r: -r["time_s"])[:12]:
        low_high = row["energy_j_interval"]
        half = (low_high[1] - low_high[0]) / 2 if low_high else None
        known = interval(*low_high) if low_high else (
            f"{interval(*row['bounds_j'])} (bounds)" if row["bounds_j"] else "")
        power = f"{number(row['power_w'])} W" if row["power_w"] is not None else ""
        how = "modelled" if row["provenance"] == "modelled" else row["status"].replace("_", " ")
        lines.append(f"| {_cell(row['phase'])} | {duration(row['time_s'])} | "
                     f"{row['time_s'] / whole:.1%} | {energy(row['energy_j'], half)} | {known} | "
                     f"{power} | {how} |")
    return [*lines, ""]


def _cell(text: object) -> str:
    """One line that neither ends a cell nor begins a tag, a link or a mention."""
    flat = " ".join(str(text).split())
    flat = flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "…"
    for sign in "\\`|*_[]<>#@":
        flat = flat.replace(sign, f"&#{ord(sign)};")
    return flat
