"""The totals of a run: joules, CO2e and cost, measured apart from modelled."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import Anchor
from ..model import Provenance
from ..report.model import CarbonIntensity, EnergyPrice, Totals
from ..store.reader import RunReader
from ..units import J_PER_KWH
from . import device_energy
from .base import RunAnalysis
from .carbon_and_price import Tariff, Tariffs


def totals(
    analysis: RunAnalysis, tariffs: Tariffs, sampling_error_j: float = 0.0
) -> tuple[Totals, CarbonIntensity | None, EnergyPrice | None]:
    """(``total``, ``carbon``, ``cost``) of the report.

    Energy is weighted by when it was used; ``carbon`` and ``cost`` hold the mean per kWh that
    comes of it. A given intensity goes before the country's, which the recorder stored.
    """
    run, devices = analysis.run, [device for device in analysis.devices if device.curve is not None]
    counted = [device for device in devices if device.source.in_total]
    modelled = [
        device
        for device in devices
        if device.source.provenance == Provenance.MODELLED
        and device.source.id not in analysis.shared
    ]
    carbon = stored_intensity(analysis.reader)
    intensity = tariffs.intensity or (
        None if carbon is None else Tariff.constant(carbon.g_per_kwh, "g", "")
    )
    joules, modelled_j = _joules(counted, run), _joules(modelled, run)
    grams, modelled_g = (
        _weighted(counted, analysis, intensity),
        _weighted(modelled, analysis, intensity),
    )
    intervals = [device_energy.total_interval(device, run) for device in counted]
    shares = [device.curve.sampled_share(*run) for device in counted if device.curve]
    total = Totals(
        energy_j=joules,
        energy_j_interval=(
            max(0.0, sum(i[0] for i in intervals) - sampling_error_j),
            sum(i[1] for i in intervals) + sampling_error_j,
        )
        if counted
        else None,
        co2e_g=grams,
        modelled_energy_j=modelled_j,
        modelled_co2e_g=modelled_g,
        coverage=min(shares) if shares else None,
        cost=_weighted(counted, analysis, tariffs.price),
        modelled_cost=_weighted(modelled, analysis, tariffs.price),
    )
    if tariffs.intensity is not None:
        mean = _mean((joules, grams), (modelled_j, modelled_g))
        carbon = _intensity(mean, tariffs.intensity)
    cost = None
    if tariffs.price is not None:
        mean = _mean((joules, total.cost), (modelled_j, total.modelled_cost))
        cost = _price(mean, tariffs.price)
    return total, carbon, cost


def stored_intensity(reader: RunReader) -> CarbonIntensity | None:
    """The country's intensity that the recorder looked up; None without a country."""
    stored = reader.meta.get("carbon")
    if not stored:
        return None
    return CarbonIntensity(
        g_per_kwh=float(stored["g_per_kwh"]),
        country=stored.get("country"),
        label=stored.get("label") or "",
        source=stored.get("source") or "",
    )


def worth_so_far(
    reader: RunReader, tariffs: Tariffs
) -> tuple[CarbonIntensity | None, EnergyPrice | None]:
    """What a kWh emits and costs over a live run: the mean over its time so far."""
    carbon, price = stored_intensity(reader), None
    part, anchor = (reader.begin_ns, reader.end_ns()), Anchor(**reader.meta["anchor"])
    if tariffs.intensity is not None:
        carbon = _intensity(tariffs.intensity.mean(part, anchor), tariffs.intensity)
    if tariffs.price is not None:
        price = _price(tariffs.price.mean(part, anchor), tariffs.price)
    return carbon, price


def _intensity(mean: float | None, tariff: Tariff) -> CarbonIntensity | None:
    if mean is None:
        return None
    return CarbonIntensity(g_per_kwh=mean, country=None, label=tariff.label, source=tariff.label)


def _price(mean: float | None, tariff: Tariff) -> EnergyPrice | None:
    if mean is None:
        return None
    return EnergyPrice(per_kwh=mean, currency=tariff.unit, label=tariff.label)


def _joules(devices: Sequence[device_energy.DeviceEnergy], run: tuple[int, int]) -> float | None:
    curves = [device.curve for device in devices if device.curve is not None]
    return sum(device_energy.energy_of(curve, run) for curve in curves) if curves else None


def _weighted(
    devices: Sequence[device_energy.DeviceEnergy], analysis: RunAnalysis, tariff: Tariff | None
) -> float | None:
    anchor = Anchor(**analysis.reader.meta["anchor"])
    curves = [device.curve for device in devices if device.curve is not None]
    if not curves or tariff is None or not tariff.covers(analysis.run, anchor):
        return None
    return sum(tariff.of(curve, analysis.run, anchor) for curve in curves)


def _mean(*parts: tuple[float | None, float | None]) -> float | None:
    """Per kWh, over all that is known."""
    pairs = [(joules, value) for joules, value in parts if joules and value is not None]
    joules = sum(part[0] for part in pairs)
    return sum(part[1] for part in pairs) / (joules / J_PER_KWH) if joules else None
