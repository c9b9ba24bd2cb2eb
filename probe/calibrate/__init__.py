"""``probe calibrate``: how a GPU's meters see power, found by switching a load at random.

    wave ──> load on the GPU, edges on the host's clock ─┐
                                                         ├─> fit ──> Calibration, kept by UUID
    reads of counter and power fields meanwhile ─────────┘

Later runs on the same card and driver use it instead of inferring lag and offset anew.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import NothingToReport
from ..sensors.nvml.calibration import Calibration, save
from .measure import SECONDS, measure
from .wave import Load, cuda_loads

__all__ = ["SECONDS", "Calibration", "Load", "calibrate", "render"]


def calibrate(seconds: float = SECONDS) -> list[tuple[Calibration, Path]]:
    """Calibrate every CUDA device that is visible, one after the other, and keep the results.

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
    calibrations = [measure(uuid, load, seconds) for uuid, load in loads]
    return [(calibration, save(calibration)) for calibration in calibrations]


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
            f"  lag             {ms(c.lag_s)} ± {ms(c.lag_error_s)}, clock ahead by "
            f"{ms(c.offset_s)} ± {ms(c.offset_error_s)}",
            f"  field 186       updates every {ms(c.instant_period_s)}, window "
            f"{ms(c.instant_window_s)}",
            f"  field 185       updates every {ms(c.average_period_s)}, window "
            f"{ms(c.average_window_s)}",
            f"  fields' clock   {c.fields_clock or 'unknown'}",
            f"  kept in {path}; runs on this card use it from now on",
        ]
    )
