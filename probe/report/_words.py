"""What every written report says besides its tables: how figures came about, and their limits."""

from __future__ import annotations

from typing import Any

from .digits import duration, energy, number

METHOD = (
    "Energy of a device is the difference of its own counter, or the integral of sampled power "
    "where it has none. Energy of a phase is estimated: the meter is slower than a phase, so its "
    "updates are regressed on the time that each phase ran between them, over all steps; the "
    "interval holds the true value in 95 of 100 cases if the sensor behaves as assumed. A phase "
    "that cannot be told apart gets hard bounds instead of a number."
)
LIMITS = (
    "Device meters see the device, not the power supply, the cooling or the network. Cards differ "
    "by up to some ±5 % in how they measure themselves. The CO2e is energy times an average "
    "intensity of the grid, not what your plug drew at that hour."
)


def provenance(report: dict[str, Any]) -> list[tuple[str, str]]:
    """(kind, what it covers) of measured, modelled and estimated figures."""
    measured = [s for s in report["sources"] if s["provenance"] == "measured" and s["in_total"]]
    modelled = [s for s in report["sources"] if s["provenance"] == "modelled"]
    lines = [("measured", ", ".join(f"{s['device']} by {s['method']}" for s in measured)
              or "nothing: no meter was found")]
    if any(r["provenance"] == "estimated" for r in report["phases"]):
        lines.append(("estimated", "the share of each phase, with its interval"))
    if modelled:
        lines.append(("modelled", ", ".join(f"{s['device']} ({s['method']})" for s in modelled)
                      + "; never added to what was measured"))
    return lines


def quality(report: dict[str, Any]) -> list[tuple[str, str]]:
    """(what, how well) of the measurement itself."""
    rows = []
    total, overhead = report["total"], report["overhead"]
    if total["coverage"] is not None:
        rows.append(("between meter updates", f"{total['coverage']:.1%} of the run"))
    for source in report["sources"]:
        if source["period_s"]:
            gaps = f", {source['gaps']} gaps" if source["gaps"] else ", no gap"
            rows.append((f"{source['device']}, {source['method']}",
                         f"an update every {duration(source['period_s'])}{gaps}"))
    rows.append(("edges lost", str(report["gaps"]["edges_lost"])))
    if overhead["share_of_step"] is not None:
        rows.append(("overhead", f"{overhead['share_of_step']:.2%} of a step "
                                 f"({overhead['method']})"))
    return rows


def machine(report: dict[str, Any]) -> list[tuple[str, str]]:
    """What it ran on and with."""
    told = report["machine"]
    models = [s["model"] for s in report["sources"] if s.get("model")]
    rows = [("host", report["run"]["host"])]
    if models:
        rows.append(("devices", ", ".join(f"{models.count(m)} × {m}"
                                          for m in dict.fromkeys(models))))
    for key, label in (("cpu_model", "processor"), ("os", "system"), ("driver", "driver")):
        if told.get(key) not in (None, "", "unknown"):
            rows.append((label, str(told[key])))
    versions = {**(told.get("versions") or {}), "torch": report.get("torch", "unknown")}
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in versions.items()
                                       if version != "unknown")))
    return rows


def headline(report: dict[str, Any]) -> str:
    """The measured total in words."""
    total = report["total"]
    if total["energy_j"] is None:
        return "no energy meter"
    low, high = total["energy_j_interval"]
    half = (high - low) / 2
    text = f"{energy(total['energy_j'], half)} ± {energy(half, half)}"
    return text + (f", {number(total['co2e_g'])} g CO2e" if total["co2e_g"] is not None else "")
