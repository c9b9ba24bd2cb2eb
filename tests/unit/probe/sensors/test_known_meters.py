"""What is published of how far meters are off."""

from __future__ import annotations

import pytest

from probe.model import Kind, Provenance, Source
from probe.sensors.known_meters import systematic


def meter(model: str = "", provenance: Provenance = Provenance.MEASURED) -> Source:
    return Source(
        id="nvml:GPU-0:energy",
        device="gpu0",
        quantity="energy",
        unit="J",
        kind=Kind.COUNTER,
        provenance=provenance,
        model=model,
    )


def test_a_published_card_has_its_own_errors() -> None:
    errors = systematic(meter("NVIDIA GeForce RTX 4090"))
    assert errors is not None
    assert (errors.gain, errors.offset_w, errors.origin) == (0.047, -21.6, "database")
    # It shows 1.047 × 70 W − 21.6 W of an idle card for 10 s: the truth lies within.
    shown = (1.047 * 70 - 21.6) * 10
    assert abs(shown - 700) <= errors.half_j(shown, 10.0)


def test_any_other_card_has_what_vendors_state() -> None:
    errors = systematic(meter("NVIDIA H100 80GB HBM3"))
    assert errors is not None
    assert (errors.gain, errors.offset_w, errors.origin) == (0.05, 0.0, "vendor")
    assert errors.half_j(1000.0, 60.0) == pytest.approx(50.0)


def test_a_model_is_no_meter() -> None:
    assert systematic(meter(provenance=Provenance.MODELLED)) is None
