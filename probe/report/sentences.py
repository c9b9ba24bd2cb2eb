"""What every written report says besides its tables: how figures came about, and their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from ..model import Phase, Provenance
from .group_model import GroupInfo
from .model import (
    EnergyPrice,
    JsonValue,
    MemoryGrowth,
    PhaseRow,
    Report,
    RunInfo,
    SourceRow,
    Totals,
)
from .numbers import data_size, duration, number, share
from .printable import printable
from .text_tables import unique

_MOST_OPTIMIZERS = 4  # that are named one by one
_STEADY_S = 30.0  # a shorter run's recorder has no share of a core to speak of

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


RECOMPUTE_PREDICTED = "recompute_predicted_s"  # of a step, as the trainer logs it


def provenance(sources: Sequence[SourceRow], phases: Iterable[PhaseRow]) -> list[tuple[str, str]]:
    """(kind, what it covers) of measured, modelled and estimated figures."""
    measured = [s for s in sources if s.provenance is Provenance.MEASURED and s.in_total]
    modelled = [s for s in sources if s.provenance is Provenance.MODELLED]
    lines = [
        (
            "measured",
            ", ".join(f"{s.device} by {s.method}" for s in measured)
            or "nothing: no meter was found",
        )
    ]
    if any(r.provenance is Provenance.ESTIMATED for r in phases):
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
    line = f"{run.steps} step{'s' * (run.steps != 1)}"
    if run.optimizers:
        line += "" if run.iterations == run.steps else f" in {run.iterations} iterations"
        line += f" ({steps_by_optimizer(run.optimizers)})"
    if run.step_s and run.step_s_quartiles:
        low, high = (duration(quartile) for quartile in run.step_s_quartiles)
        left_out = run.steps_left_out
        about = [f"{low} … {high}"] if low != high else []
        if left_out:
            about.append(
                "the first left out" if left_out == 1 else f"the first {left_out} left out"
            )
        line += f" · {duration(run.step_s)} per step"
        line += f" ({'; '.join(about)})" if about else ""
    return line


def steps_by_optimizer(steps: Mapping[str, int]) -> str:
    """The steps of each optimizer by name; if there are many, of each kind."""
    if len(steps) > _MOST_OPTIMIZERS:
        optimizers, total = Counter[str](), Counter[str]()
        for name, count in steps.items():
            kind = name.rpartition(" ")[0] or name
            optimizers[kind] += 1
            total[kind] += count
        steps = {
            f"{optimizers[kind]} × {kind}" if optimizers[kind] > 1 else kind: count
            for kind, count in total.items()
        }
    return ", ".join(f"{name}: {count}" for name, count in sorted(steps.items()))


_HELD = {
    "resident": "resident memory",
    "allocated": "allocated GPU memory",
    "reserved": "reserved GPU memory",
    "used": "GPU memory in use",
}


def memory_growth(row: MemoryGrowth, *, several: bool) -> str:
    """How a level of memory grows from step to step; ``several``: the run has several ranks."""
    low, high = row.bytes_per_step_interval
    of = f" of rank {row.rank}" if several else ""
    return (
        f"{_HELD[row.quantity]}{of} grows by {data_size(row.bytes_per_step)} a step "
        f"({data_size(low)} … {data_size(high)})"
    )


def growing_memory(row: MemoryGrowth, *, several: bool) -> str:
    """The note on a level that keeps growing."""
    return (
        f"{memory_growth(row, several=several)}, {data_size(row.grown_bytes)} over {row.steps} "
        "steps: is something kept from step to step, such as losses with their graph "
        "(`loss.item()` keeps none) or a growing list?"
    )


def begun(started: str) -> str:
    """When it began, from ISO 8601."""
    return f"begun {started[:19].replace('T', ' ')} UTC"


def quality(report: Report | GroupInfo) -> list[tuple[str, str]]:
    """(what, how well) of the recording as a whole; each meter has its own row elsewhere."""
    rows = []
    total, overhead, recorder = report.total, report.overhead, report.recorder
    if total.coverage is not None:
        rows.append(("coverage", f"{share(total.coverage)} of the run was metered; the rest is "
                     "extrapolated"))  # fmt: skip
    if report.gaps.edges_lost:
        rows.append(("records lost", str(report.gaps.edges_lost)))
    if overhead.share_of_step is not None:
        line = f"{number(100 * overhead.share_of_step)} % of a step ({overhead.method})"
        rows.append(("overhead", line))
    if recorder is not None and recorder.wall_s:
        start_s = recorder.start_cpu_s or 0.0
        if recorder.wall_s < _STEADY_S and start_s:
            line = f"{recorder.cpu_s:.1f} s of CPU, {start_s:.1f} s of it to start"
        else:
            line = f"{share((recorder.cpu_s - start_s) / recorder.wall_s)} of a core, "
            line += f"after {start_s:.1f} s of CPU to start" if start_s else "its start included"
        rows.append(("recorder", line))
    return rows


def recomputation(report: Report) -> str:
    """What running layers again took, beside what the trainer predicted; empty without both."""
    predicted = report.values.get(RECOMPUTE_PREDICTED)
    took = [row.time_s for row in report.phases if row.phase == Phase.RECOMPUTE]  # of each rank
    if predicted is None or not took or not report.run.steps:
        return ""
    return (
        f"{duration(fmean(took) / report.run.steps)} a step, predicted "
        f"{duration(predicted.last)} from the forward of the layers that run again"
    )


def machine(
    facts: Mapping[str, JsonValue], sources: Sequence[SourceRow], host: str, torch: str
) -> list[tuple[str, str]]:
    """What it ran on and with."""
    models = [s.model for s in sources if s.model]
    rows = [("host", host)]
    if models:
        rows.append(("devices", ", ".join(f"{models.count(m)} × {m}" for m in unique(models))))
    for key, label in (("cpu_model", "processor"), ("os", "system"), ("driver", "driver")):
        if facts.get(key) not in (None, "", "unknown"):
            rows.append((label, str(facts[key])))
    stored = facts.get("versions")
    versions = {**(stored if isinstance(stored, Mapping) else {}), "torch": torch}
    rows.append(
        (
            "versions",
            ", ".join(
                f"{name} {version}" for name, version in versions.items() if version != "unknown"
            ),
        )
    )
    return rows


def short(text: str | int, longest: int) -> str:
    """One line of so many characters at most."""
    flat = printable(" ".join(str(text).split()))
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def worth(total: Totals, price: EnergyPrice | None, *, modelled: bool = False) -> list[str]:
    """What the measured (or the modelled) energy emits and costs, if that is known."""
    grams = total.modelled_co2e_g if modelled else total.co2e_g
    cost = total.modelled_cost if modelled else total.cost
    parts = []
    if grams is not None:
        parts.append(f"{number(grams)} g CO2e")
    if price and cost is not None:
        parts.append(f"{number(cost)} {price.currency}".rstrip())
    return parts


def tariffs(report: Report | GroupInfo) -> list[str]:
    """The means per kWh that it was reckoned with."""
    carbon, cost = report.carbon, report.cost
    parts = []
    if carbon:
        parts.append(f"{number(carbon.g_per_kwh)} g/kWh, {carbon.label}")
    if cost:
        unit = f"{cost.currency}/kWh".removeprefix("/") if cost.currency else "per kWh"
        parts.append(f"{number(cost.per_kwh)} {unit}, {cost.label}")
    return parts
