"""Which sources the estimator attributes to phases, and how each is read in time."""

from __future__ import annotations

from ..model import DeviceKind, Kind, Provenance, Source
from .accumulator import Accumulator
from .meter.power_updates import PowerUpdateFinder
from .meter.update_times import CounterUpdateFinder
from .meter.windows import WindowUpdateFinder
from .response.response import Response

FINE_S = 0.005  # a counter this fine is read without a lag worth the name (RAPL)
CPU_TIME = "cpu_time"  # of a process: its rate is the number of cores at work
RATES = (
    "sm_activity",
    "tensor_activity",
    "dram_activity",
    "kernel_time",
    "memory_time",
    "power_cap_time",
)


def is_rate(source: Source) -> bool:
    """True for a share of time, or of a unit's peak, that is attributed as power is."""
    cpu = source.quantity == CPU_TIME and source.device_kind is DeviceKind.RANK
    return source.attributable and (source.quantity in RATES or cpu)


def is_energy(source: Source) -> bool:
    """True for a measured counter that counts into the total."""
    measured = source.provenance is Provenance.MEASURED and source.attributable
    return measured and source.is_energy_counter and source.in_total


def is_sampled_power(source: Source) -> bool:
    """True for the driver's own power samples, each the mean since the one before."""
    return source.attributable and source.quantity == "power_samples"


def is_polled_power(source: Source) -> bool:
    """True for a power reading that is the device's energy and whose refreshes can be dated."""
    return source.attributable and source.tracked and source.in_total


def is_attributed(source: Source) -> bool:
    """True if the estimator attributes this source to phases."""
    energy = is_energy(source) or is_sampled_power(source) or is_polled_power(source)
    return source.dated and (energy or is_rate(source))


def accumulator_of(source: Source, begin_s: float = 0.0) -> Accumulator:
    """Make the accumulator for a source.

    Args:
        begin_s: where the run begins, on the clock of the reads.

    Raises:
        ValueError: the source is not attributed to phases.
    """
    if not is_attributed(source):
        raise ValueError(f"{source.id} is not attributed to phases")
    if is_rate(source):
        gauge = source.kind is Kind.GAUGE
        windows = WindowUpdateFinder(source.resolution_s if gauge else None)
        return Accumulator(Response(), windows, exact=True, begin_s=begin_s)
    if is_sampled_power(source):
        return Accumulator(None, WindowUpdateFinder(source.resolution_s), begin_s=begin_s)
    if is_polled_power(source):
        finder = PowerUpdateFinder()
        return Accumulator(
            _calibrated(source), finder, polled=True, hint=_published(source), begin_s=begin_s
        )
    fine = source.resolution_s is not None and source.resolution_s <= FINE_S
    response = _calibrated(source)
    exact = fine and response is None
    lattice = CounterUpdateFinder(
        wrap_j=source.wrap_raw * source.scale if source.wrap_raw else None,
        resolution_s=source.resolution_s,
    )
    if exact:
        response = Response()
    return Accumulator(response, lattice, exact=exact, hint=_published(source), begin_s=begin_s)


def _calibrated(source: Source) -> Response | None:
    if source.lag_s is None:
        return None
    delay_s = source.delay_s or 0.0
    if source.part_s:
        return Response.part_time(source.part_s, delay_s, source.lag_s)
    if source.average_s:
        return Response.averaging(delay_s, source.average_s)
    return Response.of(delay_s, source.lag_s)


def _published(source: Source) -> Response | None:
    """What is published of such a card: where the search begins, too. None without any."""
    if source.lag_s is not None:
        return None
    if source.part_s:
        return Response.part_time(source.part_s, source.delay_s or 0.0)
    return Response.of(source.delay_s) if source.delay_s else None
