"""What every written report says besides its tables: how figures came about, and their limits."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Provenance
from .model import EnergyPrice, PhaseRow, Report, RunInfo, Totals
from .numbers import duration, energy, interval, number

METHOD = (
    "Energy of a device is the difference of its own counter, or the integral of sampled power "
    "where it has none. Energy of a phase is estimated: the meter is slower than a phase, so its "
    "updates are regressed on the time that each phase ran between them, over all steps; the "
    "interval holds the true value in 95 of 100 cases. How late and how slowly the meter shows "
    "power is inferred from the same updates, and what is not known of it is in the interval; "
    "where the updates are not those of any meter that we know, no phase gets a number. A phase "
    "that cannot be told apart gets hard bounds instead of a number."
)
LIMITS = (
    "Device meters see the device, not the power supply, the cooling or the network. How far a "
    "meter is off as a whole cannot be seen in its own data: the interval does not contain it, it "
    "stands beside it. The CO2e is energy times an average "
    "intensity of the grid, not what your plug drew at that hour."
)


def provenance(report: Report) -> list[tuple[str, str]]:
    """(kind, what it covers) of measured, modelled and estimated figures."""
    measured = [s for s in report.sources if s.provenance is Provenance.MEASURED and s.in_total]
    modelled = [s for s in report.sources if s.provenance is Provenance.MODELLED]
    lines = [
        (
            "measured",
            ", ".join(f"{s.device} by {s.method}" for s in measured)
            or "nothing: no meter was found",
        )
    ]
    if any(r.provenance is Provenance.ESTIMATED for r in report.phases):
        lines.append(("estimated", "the share of each phase, with its interval"))
    if modelled:
        lines.append(
            (
                "modelled",
                ", ".join(f"{s.device} ({s.method})" for s in modelled)
                + "; never added to what was measured",
            )
        )
    return lines


def steps(run: RunInfo) -> str:
    """How many steps, by which optimizers, and how long one took."""
    line = f"{run.steps} steps"
    if run.optimizers:
        each = ", ".join(f"{name}: {number}" for name, number in sorted(run.optimizers.items()))
        line += f" in {run.iterations} iterations ({each})"
    if run.step_s and run.step_s_quartiles:
        low, high = (duration(quartile) for quartile in run.step_s_quartiles)
        left_out = run.steps_left_out
        about = [f"{low} … {high}"] if low != high else []
        about += [f"the first {left_out} left out"] if left_out else []
        line += f" · {duration(run.step_s)} per step"
        line += f" ({'; '.join(about)})" if about else ""
    return line


def quality(report: Report) -> list[tuple[str, str]]:
    """(what, how well) of the measurement itself."""
    rows = []
    total, overhead = report.total, report.overhead
    if total.coverage is not None:
        rows.append(("metered", f"{total.coverage:.1%} of the run"))
    for source in report.sources:
        if source.period_s:
            gaps = f", {source.gaps} gaps" if source.gaps else ", no gap"
            rows.append(
                (
                    f"{source.device}, {source.method}",
                    f"an update every {duration(source.period_s)}{gaps}",
                )
            )
    rows += [(f"{device}, its meter", line) for device, line in meters_off(report)]
    rows += [(f"{device}, its meter is", line) for device, line in meter_notes(report)]
    rows.append(("edges lost", str(report.gaps.edges_lost)))
    if overhead.share_of_step is not None:
        rows.append(("overhead", f"{overhead.share_of_step:.2%} of a step ({overhead.method})"))
    return rows


def meters_off(report: Report) -> list[tuple[str, str]]:
    """(devices, how far their meters may be off as a whole) of those that are in the total."""
    devices: dict[str, list[str]] = {}
    for source in report.sources:
        errors = source.systematic
        if not source.in_total or not errors:
            continue
        if errors.from_ == "database":
            line = (
                f"shows {1 + errors.gain:.3f} × power {errors.offset_w:+.1f} W, as published "
                "for this card; the energies above are as it shows them"
            )
        else:
            share = f"±{100 * errors.gain:.0f} %"
            line = f"may be off by {share}, all phases alike, beside the intervals"
        devices.setdefault(line, []).append(source.device)
    return [(", ".join(names), line) for line, names in devices.items()]


def meter_notes(report: Report) -> list[tuple[str, str]]:
    """(device, what its meter does to power before it shows it), allowed for in the intervals."""
    return [
        (source.device, f"{source.note} (allowed for)")
        for source in report.sources
        if source.response and source.response.kind != "in time"
    ]


def machine(report: Report) -> list[tuple[str, str]]:
    """What it ran on and with."""
    facts = report.machine
    models = [s.model for s in report.sources if s.model]
    rows = [("host", report.run.host)]
    if models:
        rows.append(
            ("devices", ", ".join(f"{models.count(m)} × {m}" for m in dict.fromkeys(models)))
        )
    for key, label in (("cpu_model", "processor"), ("os", "system"), ("driver", "driver")):
        if facts.get(key) not in (None, "", "unknown"):
            rows.append((label, str(facts[key])))
    stored = facts.get("versions")
    versions = {**(stored if isinstance(stored, Mapping) else {}), "torch": report.torch}
    rows.append(
        (
            "versions",
            ", ".join(
                f"{name} {version}" for name, version in versions.items() if version != "unknown"
            ),
        )
    )
    return rows


COLUMNS = ("phase", "count", "time", "share", "energy", "95 % interval", "power", "how")


def rows_of(report: Report, device: str) -> list[tuple[PhaseRow, list[str]]]:
    """The phases of a device, each with its cells under ``COLUMNS``."""
    rows = [row for row in report.phases if row.device == device]
    total_s = sum(r.time_s for r in rows if r.phase != "unresolved") or 1.0
    return [(row, phase_cells(row, total_s)) for row in rows]


def phase_cells(row: PhaseRow, total_s: float, *, for_terminal: bool = False) -> list[str]:
    """One row of ``phases`` as the cells of :data:`COLUMNS`.

    Args:
        total_s: time of which the share is shown.
        for_terminal: write the share as ``23.3 %`` and the status as in the JSON.
    """
    low_high = row.energy_j_interval
    half = (low_high[1] - low_high[0]) / 2 if low_high else None
    percent = f"{100 * row.time_s / total_s:.1f} %"
    status = str(row.status) if for_terminal else row.status.replace("_", " ")
    modelled = row.is_modelled
    return [
        row.phase,
        str(row.count),
        duration(row.time_s),
        percent if for_terminal else f"{row.time_s / total_s:.1%}",
        energy(row.energy_j, half),
        _range(row),
        f"{number(row.power_w)} W" if row.power_w is not None else "",
        "modelled" if modelled else f"{row.provenance}, {status}",
    ]


def _range(row: PhaseRow) -> str:
    """Interval of what is stated, bounds of what is refused."""
    if row.energy_j_interval:
        return interval(*row.energy_j_interval)
    return f"{interval(*row.bounds_j)} bounds" if row.bounds_j else ""


def short(text: str | int, longest: int) -> str:
    """One line of so many characters at most."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def headline(report: Report) -> str:
    """The measured total in words."""
    total = report.total
    if total.energy_j is None or total.energy_j_interval is None:
        return "no energy meter"
    low, high = total.energy_j_interval
    half = (high - low) / 2
    text = f"{energy(total.energy_j, half)} ± {energy(half, half)}"
    return ", ".join([text, *worth(total, report.cost)])


def worth(total: Totals, price: EnergyPrice | None, *, modelled: bool = False) -> list[str]:
    """What the measured (or the modelled) energy emits and costs, if that is known."""
    grams = total.modelled_co2e_g if modelled else total.co2e_g
    cost = total.modelled_cost if modelled else total.cost
    sentences = []
    if grams is not None:
        sentences.append(f"{number(grams)} g CO2e")
    if price and cost is not None:
        sentences.append(f"{number(cost)} {price.currency}".rstrip())
    return sentences


def tariffs(report: Report) -> list[str]:
    """The means per kWh that it was reckoned with."""
    carbon, cost = report.carbon, report.cost
    sentences = []
    if carbon:
        sentences.append(f"{number(carbon.g_per_kwh)} g/kWh, {carbon.label}")
    if cost:
        unit = f"{cost.currency}/kWh".removeprefix("/") if cost.currency else "per kWh"
        sentences.append(f"{number(cost.per_kwh)} {unit}, {cost.label}")
    return sentences
