"""``probe calibrate``: how a GPU's meters see power, found by switching a load at random.

    wave ──> load on the GPU, edges on the host's clock ─┐
                                                         ├─> fit ──> Calibration, kept by UUID
    reads of counter and power fields meanwhile ─────────┘

Later runs on the same card and driver use it instead of inferring lag and offset anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import NothingToReport
from ..sensors.nvml.calibration import Calibration, save
from .measure import SECONDS, measure
from .wave import Load, cuda_loads

__all__ = ["SECONDS", "Calibration", "Load", "calibrate", "entries", "render"]


def calibrate(
    seconds: float = SECONDS, record: Path | None = None
) -> list[tuple[Calibration, Path]]:
    """Calibrate every CUDA device that is visible, one after the other, and keep the results.

    Args:
        record: a .npz file that keeps what was read; of several devices each has its own, with its
            number in the name.

    Raises:
        NothingToReport: there is no CUDA device, or none has an energy counter.
        UsageError: the result cannot be written.
    """
    loads = cuda_loads()
    if not loads:
        raise NothingToReport(
            "there is no CUDA device here, and so nothing to calibrate: run this "
            "on the machine with the GPU, with a CUDA build of torch"
        )
    calibrations = []
    for number, (uuid, load) in enumerate(loads):
        file = record
        if record is not None and len(loads) > 1:
            file = record.with_name(f"{record.stem}-{number}{record.suffix}")
        calibrations.append(measure(uuid, load, seconds, record=file))
    return [(calibration, save(calibration)) for calibration in calibrations]


def _response(c: Calibration) -> str:
    """How the counter shows power, in words."""
    late = f"{1e3 * c.delay_s:.1f} ± {1e3 * c.delay_error_s:.1f} ms late"
    error = f"± {1e3 * c.lag_error_s:.1f} ms"
    if c.part_s:
        return (
            f"part-time: it integrates {1e3 * c.part_s:.1f} of {1e3 * c.counter_period_s:.1f} ms; "
            f"{late}"
        )
    if c.average_s:
        return f"moving average over {1e3 * c.average_s:.1f} {error}, {late}"
    return f"first-order lag of {1e3 * c.lag_s:.1f} {error}, {late}"


def render(calibration: Calibration, path: Path) -> str:
    """What was measured, as text for a terminal."""
    c = calibration

    def ms(value: float | None, digits: int = 1) -> str:
        return "—" if value is None else f"{1e3 * value:.{digits}f} ms"

    return "\n".join(
        [
            f"{c.name} · {c.uuid} · driver {c.driver}",
            f"  energy counter  updates every {ms(c.counter_period_s)} "
            f"(± {ms(c.counter_jitter_s, 2)}), a read takes {ms(c.counter_read_s, 3)}",
            f"  response        {_response(c)}",
            f"  field 186       updates every {ms(c.instant_period_s)}, window "
            f"{ms(c.instant_window_s)}",
            f"  field 185       updates every {ms(c.average_period_s)}, window "
            f"{ms(c.average_window_s)}",
            f"  fields' clock   {c.fields_clock or 'unknown'}",
            f"  kept in {path}; runs on this card use it from now on",
            "  to share it, add this to probe/sensors/cards.json:",
            *(f"    {line}" for line in json.dumps(entries(c), indent=1).splitlines()),
        ]
    )


def entries(calibration: Calibration) -> list[dict[str, object]]:
    """What the database of cards would hold of this card: its counter, and its instant power."""
    c = calibration
    common: dict[str, object] = {"source": "probe calibrate", "date": c.measured[:10]}
    common["model"] = c.name
    common["driver"] = c.driver.partition(".")[0]
    counter: dict[str, object] = {"quantities": ["energy"], "period_s": c.counter_period_s}
    counter["delay_s"] = max(-0.01, c.delay_s + c.lag_s)
    if c.part_s or c.average_s:
        counter["window_s"], counter["delay_s"] = c.part_s or c.average_s, max(-0.01, c.delay_s)
    cards = [common | counter]
    if c.instant_period_s and c.instant_window_s:
        power: dict[str, object] = {"period_s": c.instant_period_s}
        power["window_s"] = c.instant_window_s
        cards.append(common | {"quantities": ["power"]} | power)
    return cards
