"""An ablation as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from probe.compare.gain import EnergyGain, Gain, Verdict
from probe.compare.model import Comparison
from probe.compare.reasons import CONTAINS_ZERO
from probe.model import Provenance
from probe.report.text_tables import Table, between, joules, percent, seconds

from .model import AblationResult, AddedStep, GameValues, LeftOut, ShapleyRefused, ShapleyValues

Format = Callable[[float | None], str]


def render(result: AblationResult) -> str:
    """The ablation as text: whether it is sound, then a row for every technique."""
    lines = [_headline(result), _soundness(result), ""]
    for table in _tables(result):
        lines += [*table.lines(), ""]
    if isinstance(result.shapley, ShapleyValues):
        lines += [
            f"! {name} is worse in quality than the baseline, so no gain is called one"
            for name in result.shapley.worse_in_quality
        ]
    lines += [f"{name}: {why}" for name, why in _reasons(result)]
    if result.missing:
        lines.append(f"! {result.missing} trials are still to be run")
    return "\n".join(lines).rstrip()


def _tables(result: AblationResult) -> list[Table]:
    if result.steps is not None:
        return [_cumulative(result.no_op, result.steps)]
    if result.all_ is not None:
        return [_left_out(result.all_, result.left_out or ())]
    if isinstance(result.shapley, ShapleyRefused):
        return [Table("no Shapley values", ["why"], [[result.shapley.refused]])]
    return [] if result.shapley is None else _shapley(result.shapley)


def _headline(result: AblationResult) -> str:
    work = "the same work" if result.mode == "equal_work" else "cost to the target"
    return (
        f"ablation of {', '.join(result.techniques)}: {result.design}, "
        f"{result.blocks} blocks, {work}; positive numbers are savings"
    )


def _soundness(result: AblationResult) -> str:
    nothing = result.no_op
    parts = [f"time {_gained(nothing.time_s, seconds)}"]
    if nothing.energy_j.provenance is Provenance.MEASURED:
        parts.append(f"energy {_gained(nothing.energy_j, joules)}")
    line = f"no-op (the baseline again): {', '.join(parts)}"
    if result.sound is None:
        return f"{line}; whether the ablation is sound cannot be told ({nothing.reason})"
    if result.sound:
        return f"{line}: holds zero, as it must"
    return f"{line}\n! UNSOUND: doing nothing made a difference, so no figure below can be trusted"


def _reasons(result: AblationResult) -> list[tuple[str, str]]:
    """Why a technique has no verdict, where it is more than an interval that contains zero."""
    rows = [(f"+ {row.technique}", row.step.reason) for row in result.steps or ()]
    rows += [(row.technique, row.gain.reason) for row in result.left_out or ()]
    return [(name, why) for name, why in rows if why and not why.endswith(CONTAINS_ZERO)]


def _gained(gain: Gain, formatted: Format) -> str:
    if gain.gain is None:
        return "not known"
    if gain.interval is None:
        return formatted(gain.gain)
    return f"{formatted(gain.gain)} ({between(gain.interval, formatted)})"


def _cumulative(no_op: Comparison, steps: Sequence[AddedStep]) -> Table:
    rows = [["baseline", *_base(no_op), *[""] * 6]]
    for row in steps:
        time, energy = row.step.time_s, row.step.energy_j
        rows.append(
            [
                f"+ {row.technique}",
                *_other(row.step),
                _percent(time),
                _verdict(time),
                _percent(energy),
                _verdict(energy),
                _percent(row.in_all.time_s),
                _percent(row.in_all.energy_j),
            ]
        )
    head = ["", "time", "energy", "peak memory", "quality", "its time gain", ""]
    head += ["its energy gain", "", "all so far: time", "energy"]
    return Table("one after the other, means of all blocks", head, rows, frozenset({0, 6, 8}))


def _base(of: Comparison) -> list[str]:
    return _cells(of, of.time_s.base, of.energy_j.base, of.memory_bytes.base, of.quality.base)


def _other(of: Comparison) -> list[str]:
    return _cells(of, of.time_s.other, of.energy_j.other, of.memory_bytes.other, of.quality.other)


def _cells(
    comparison: Comparison,
    time_s: float | None,
    energy_j: float | None,
    memory_bytes: float | None,
    quality: float | None,
) -> list[str]:
    """What a side used, and how good it became."""
    modelled = comparison.energy_j.provenance is Provenance.MODELLED
    return [
        seconds(time_s),
        joules(energy_j) + (" modelled" if modelled else ""),
        "—" if memory_bytes is None else f"{memory_bytes / 2**20:.0f} MiB",
        "—" if quality is None else f"{quality:.4g}",
    ]


def _percent(gain: Gain) -> str:
    """Of the base; a bound where a target was missed."""
    return "not known" if gain.gain is None else percent(gain.percent)


def _verdict(gain: Gain) -> str:
    modelled = isinstance(gain, EnergyGain) and gain.provenance is Provenance.MODELLED
    return "modelled" if modelled else str(gain.verdict)


def _left_out(together: Comparison, left_out: Sequence[LeftOut]) -> Table:
    rows = []
    for row in [LeftOut("all of them", together), *left_out]:
        time, energy = row.gain.time_s, row.gain.energy_j
        rows.append(
            [
                row.technique,
                _gained(time, seconds),
                percent(time.percent),
                _verdict(time),
                _gained(energy, joules),
                percent(energy.percent),
                _verdict(energy),
            ]
        )
    head = ["", "time", "", "", "energy", "", ""]
    return Table("what each saves beside all others", head, rows, frozenset({0, 3, 6}))


def _shapley(values: ShapleyValues) -> list[Table]:
    tables = _of_quantity(values, values.time_s, seconds, "time")
    if values.energy_j is not None:
        tables += _of_quantity(values, values.energy_j, joules, "energy")
    return tables


def _of_quantity(
    values: ShapleyValues, quantity: GameValues, formatted: Format, what: str
) -> list[Table]:
    cells = [f"{cell.stage} {cell.class_}" for cell in values.cells]
    rows = [
        [
            row.technique,
            formatted(row.gain),
            between(row.interval, formatted) if row.interval else "",
            str(row.verdict),
            *(formatted(cell.gain) for cell in row.cells),
        ]
        for row in quantity.techniques
    ]
    total = [_sum([row.cells[i].gain for row in quantity.techniques]) for i in range(len(cells))]
    every = _sum([row.gain for row in quantity.techniques])
    rows.append(["all of them", formatted(every), "", "", *map(formatted, total)])
    tables = [
        Table(
            f"{what} saved, Shapley values ({_orders(values)})",
            ["", "saved", "95 % interval", "verdict", *cells],
            rows,
            frozenset({0, 3}),
        )
    ]
    pairs = [row for row in quantity.interactions if row.verdict is not Verdict.NO_EVIDENCE]
    if pairs:
        tables.append(
            Table(
                f"{what}: together they save more or less than apart",
                ["", "more", "95 % interval"],
                [
                    [
                        " and ".join(row.techniques),
                        formatted(row.gain),
                        between(row.interval, formatted),
                    ]
                    for row in pairs
                ],
            )
        )
    return tables


def _sum(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


def _orders(values: ShapleyValues) -> str:
    if not values.exact:
        return f"{values.orders} orders sampled in each block"
    if values.valid_orders_only:
        return f"over the {values.orders} orders that pass through stacks that can run"
    return f"over all {values.orders} orders"
