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
    found = [measure(uuid, load, seconds) for uuid, load in loads]
    return [(one, save(one)) for one in found]


def render(found: Calibration, path: Path) -> str:
    """For a terminal."""

    def ms(value: float | None, digits: int = 1) -> str:
        return "—" if value is None else f"{1e3 * value:.{digits}f} ms"

    return "\n".join(
        [
            f"{found.name} · {found.uuid} · driver {found.driver}",
            f"  energy counter  updates every {ms(found.counter_period_s)} "
            f"(± {ms(found.counter_jitter_s, 2)}), a read takes {ms(found.counter_read_s, 3)}",
            f"  lag             {ms(found.lag_s)} ± {ms(found.lag_error_s)}, clock ahead by "
            f"{ms(found.offset_s)} ± {ms(found.offset_error_s)}",
            f"  field 186       updates every {ms(found.instant_period_s)}, window "
            f"{ms(found.instant_window_s)}",
            f"  field 185       updates every {ms(found.average_period_s)}, window "
            f"{ms(found.average_window_s)}",
            f"  fields' clock   {found.fields_clock or 'unknown'}",
            f"  kept in {path}; runs on this card use it from now on",
        ]
    )
