"""What ``probe demo`` prints: 80 columns, plain."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from ..model import Phase, Source
from ..report.all_devices import METERED, all_devices
from ..report.model import PhaseRow, Report
from ..report.numbers import duration, energy_range, interval, number
from ..report.text_tables import Table
from ..simulated_card import NAME, WORD
from .demo import Outcome
from .truth import LEVELS_W, VARIES

_WIDTH = 80
_SHOWN = (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def before(meters: Sequence[Source], seconds: float) -> str:
    """What is going to be measured."""
    if meters:
        names = ", ".join(f"{meter.device} ({meter.method})" for meter in meters)
        text = f"training a small model for {duration(seconds)}, measured by {names}"
    else:
        text = (
            f"{WORD}: no energy meter can be read here, so a card that does not exist is put "
            f"under pynvml. A small real model trains on the CPU for {duration(seconds)}. Its "
            f"phases draw powers that are made up ({_levels()}) and differ by "
            f"{100 * VARIES:.0f} % from visit to visit. All that phasewatt sees of them is an "
            "energy counter that moves every 100 ms."
        )
    return textwrap.fill(text, _WIDTH)


def after(outcome: Outcome, directory: str | None = None) -> str:
    """The estimated joules per phase, beside the true ones where there are any; what to do next.

    Args:
        directory: of runs, if it was named.
    """
    report = outcome.report
    lines = ["", *_table(report, outcome.true_j).lines(_WIDTH), ""]
    if outcome.true_j is not None:
        lines[1:1] = [f"{WORD}: {report.run.steps} steps in {duration(report.run.duration_s)} "
                      f"on the {NAME}"]  # fmt: skip
    where = f" --dir {directory}" if directory else ""
    lines += [
        f"the report      probe report {outcome.run.name}{where}",
        f"the dashboard   probe dashboard{where}",
        "your training   import probe",
        "                with probe.watch(model, optimizer):",
        "                    for x, y in loader:",
        "                        ...",
        "                then `probe report`; or unchanged: probe run -- python train.py",
    ]
    return "\n".join(lines)


def inside(row: PhaseRow, true_j: float) -> bool | None:
    """Whether the phase's interval holds the truth; None where its energy is refused."""
    if row.energy_j is None or row.energy_j_interval is None:
        return None
    low, high = row.energy_j_interval
    return low <= true_j <= high


def phase_rows(report: Report) -> list[PhaseRow]:
    """The phases of the training's steps that have a meter, in a step's order."""
    tables = [table for table in all_devices(report) if table.kind == METERED]
    rows = {row.phase: row for table in tables for row in table.named}
    return [rows[phase] for phase in _SHOWN if phase in rows]


def _table(report: Report, true_j: Mapping[str, float] | None) -> Table:
    rows = phase_rows(report)
    if true_j is None:
        cells = [[row.phase, _estimated(row), _interval(row)] for row in rows]
        return Table("joules by phase", ["phase", "J", "95 % interval"], cells)
    words = {True: "yes", False: "no", None: "refused"}
    return Table(
        f"{WORD}: joules by phase",
        ["phase", "true J", "estimated J", "95 % interval", "inside?"],
        [
            [
                row.phase,
                number(true_j[row.phase], _half(row)),
                _estimated(row),
                _interval(row),
                words[inside(row, true_j[row.phase])],
            ]
            for row in rows
        ],
        text=frozenset({0, 4}),
    )


def _half(row: PhaseRow) -> float | None:
    if row.energy_j_interval is None:
        return None
    return (row.energy_j_interval[1] - row.energy_j_interval[0]) / 2


def _estimated(row: PhaseRow) -> str:
    return number(row.energy_j, _half(row))


def _interval(row: PhaseRow) -> str:
    if row.energy_j_interval is not None:
        return interval(*row.energy_j_interval)
    return f"between {energy_range(*row.bounds_j)}" if row.bounds_j is not None else "—"


def _levels() -> str:
    return ", ".join(f"{phase} {LEVELS_W[phase]:.0f}" for phase in _SHOWN) + " W"
